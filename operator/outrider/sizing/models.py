"""Well-known models by name. Dimensions are those of each config.json on the Hugging Face hub."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from outrider.sizing import current_models
from outrider.sizing.architecture import Architecture, Precision
from outrider.sizing.hf_config import read_fields


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model, and the drafter that is published for it."""

    uri: str
    architecture: Architecture
    drafter_uri: str | None = None  # EAGLE-3
    also: tuple[str, ...] = ()  # other models of the same dimensions
    predicts: bool = False  # it has a layer of its own for next tokens (MTP)

    @property
    def source(self) -> str:
        """Where the dimensions were read."""
        return f"config.json of {self.uri.removeprefix('hf://')}"


def _speculator(name: str) -> str:
    return f"hf://RedHatAI/{name}-speculator.eagle3"


def _model(
    repository: str,
    fields: current_models.Fields,
    *,
    drafter: str | None = None,
    also: tuple[str, ...] = (),
    predicts: bool = True,
) -> KnownModel:
    name = repository.partition("/")[2].removesuffix("-Instruct").removesuffix("-it")
    return KnownModel(f"hf://{repository}", read_fields(dict(fields), name=name), drafter, also, predicts)


KNOWN_MODELS: tuple[KnownModel, ...] = (
    KnownModel(
        "hf://meta-llama/Llama-3.1-8B-Instruct",
        Architecture("Llama-3.1-8B", 32, 4096, 32, 8, 128, 14336, 128256),
        _speculator("Llama-3.1-8B-Instruct"),
    ),
    KnownModel(
        "hf://meta-llama/Llama-3.3-70B-Instruct",
        Architecture("Llama-3.3-70B", 80, 8192, 64, 8, 128, 28672, 128256),
        _speculator("Llama-3.3-70B-Instruct"),
        also=("llama-3.1-70b", "llama-3-70b"),
    ),
    KnownModel(
        "hf://meta-llama/Llama-3.1-405B-Instruct",
        Architecture("Llama-3.1-405B", 126, 16384, 128, 8, 128, 53248, 128256),
    ),
    KnownModel(
        "hf://meta-llama/Llama-3.2-1B-Instruct",
        Architecture("Llama-3.2-1B", 16, 2048, 32, 8, 64, 8192, 128256, tied=True),
    ),
    KnownModel(
        "hf://meta-llama/Llama-3.2-3B-Instruct",
        Architecture("Llama-3.2-3B", 28, 3072, 24, 8, 128, 8192, 128256, tied=True),
    ),
    KnownModel(
        "hf://Qwen/Qwen2.5-7B-Instruct",
        Architecture("Qwen2.5-7B", 28, 3584, 28, 4, 128, 18944, 152064),
    ),
    KnownModel(
        "hf://Qwen/Qwen2.5-0.5B-Instruct",
        Architecture("Qwen2.5-0.5B", 24, 896, 14, 2, 64, 4864, 151936, tied=True),
    ),
    KnownModel(
        "hf://Qwen/Qwen3-0.6B",
        Architecture("Qwen3-0.6B", 28, 1024, 16, 8, 128, 3072, 151936, tied=True),
    ),
    KnownModel(
        "hf://Qwen/Qwen3-8B",
        Architecture("Qwen3-8B", 36, 4096, 32, 8, 128, 12288, 151936),
        _speculator("Qwen3-8B"),
    ),
    KnownModel(
        "hf://Qwen/Qwen3-14B",
        Architecture("Qwen3-14B", 40, 5120, 40, 8, 128, 17408, 151936),
        _speculator("Qwen3-14B"),
    ),
    KnownModel(
        "hf://Qwen/Qwen3-32B",
        Architecture("Qwen3-32B", 64, 5120, 64, 8, 128, 25600, 151936),
        _speculator("Qwen3-32B"),
    ),
    KnownModel(
        "hf://Qwen/Qwen3-30B-A3B",
        Architecture("Qwen3-30B-A3B", 48, 2048, 32, 4, 128, 768, 151936, experts=128, experts_per_token=8),
        also=("qwen3-coder-30b-a3b",),
    ),
    KnownModel(
        "hf://mistralai/Mistral-Small-24B-Instruct-2501",
        Architecture("Mistral-Small-24B", 40, 5120, 32, 8, 128, 32768, 131072),
        also=("mistral-small-24b",),
    ),
    KnownModel(
        "hf://mistralai/Mistral-Large-Instruct-2411",
        Architecture("Mistral-Large-2411", 88, 12288, 96, 8, 128, 28672, 32768),
        also=("mistral-large-2411", "mistral-large-instruct-2407"),
    ),
    _model(
        "openai/gpt-oss-120b",
        current_models.GPT_OSS_120B,
        drafter=_speculator("gpt-oss-120b"),
        predicts=False,
    ),
    _model("openai/gpt-oss-20b", current_models.GPT_OSS_20B, predicts=False),
    _model(
        "deepseek-ai/DeepSeek-V3",
        current_models.DEEPSEEK_V3,
        also=("deepseek-v3-0324", "deepseek-v3.1", "deepseek-v3.1-terminus", "deepseek-r1-0528"),
    ),
    _model("deepseek-ai/DeepSeek-R1", current_models.DEEPSEEK_V3),
    _model("deepseek-ai/DeepSeek-V3.2", current_models.DEEPSEEK_V3_2),
    _model(
        "moonshotai/Kimi-K2-Instruct",
        current_models.KIMI_K2,
        also=("kimi-k2-instruct-0905",),
        predicts=False,
    ),
    _model("moonshotai/Kimi-K2.5", current_models.KIMI_K2_5, also=("kimi-k2.6",), predicts=False),
    _model("zai-org/GLM-4.7", current_models.GLM_4_7, also=("glm-4.5", "glm-4.6")),
    _model("zai-org/GLM-4.5-Air", current_models.GLM_4_5_AIR),
    _model("zai-org/GLM-5", current_models.GLM_5, also=("glm-5.1",)),
    _model(
        "MiniMaxAI/MiniMax-M2.5",
        current_models.MINIMAX_M2,
        also=("minimax-m2", "minimax-m2.1", "minimax-m2.7"),
        predicts=False,
    ),
    _model("google/gemma-3-27b-it", current_models.GEMMA_3_27B, predicts=False),
    _model("google/gemma-3-12b-it", current_models.GEMMA_3_12B, predicts=False),
    _model("google/gemma-3-4b-it", current_models.GEMMA_3_4B, predicts=False),
    _model("google/gemma-4-31B-it", current_models.GEMMA_4_31B, predicts=False),
    _model("google/gemma-4-26B-A4B-it", current_models.GEMMA_4_26B, predicts=False),
    _model("Qwen/Qwen3-Next-80B-A3B-Instruct", current_models.QWEN_3_NEXT),
    _model("Qwen/Qwen3.5-27B", current_models.QWEN_3_5_27B),
    _model("Qwen/Qwen3.5-35B-A3B", current_models.QWEN_3_5_35B),
    _model("Qwen/Qwen3.5-122B-A10B", current_models.QWEN_3_5_122B),
    _model("Qwen/Qwen3.5-397B-A17B", current_models.QWEN_3_5_397B),
    _model("Qwen/Qwen3.6-27B", current_models.QWEN_3_5_27B),
    _model("Qwen/Qwen3.6-35B-A3B", current_models.QWEN_3_5_35B),
    _model("meta-llama/Llama-4-Maverick-17B-128E-Instruct", current_models.LLAMA_4_MAVERICK, predicts=False),
    _model("meta-llama/Llama-4-Scout-17B-16E-Instruct", current_models.LLAMA_4_SCOUT, predicts=False),
)

_WEIGHTS = (
    r"fp8|bf16|fp16|awq|gptq|int4|int8|w4a16|w8a8|w8a16|quantized\.w\d+a\d+|dynamic|nvfp4|mxfp4|mxfp8|fp4|"
    "bnb-4bit"
)
_QUANTISED = re.compile(f"-({_WEIGHTS})$")
_VARIANT = re.compile(f"-({_WEIGHTS}|instruct|it|chat|base|hf|2507)$")
_PRECISIONS = (  # The more particular ones first.
    (Precision.NVFP4, ("nvfp4",)),
    (Precision.MXFP4, ("mxfp4",)),
    (Precision.NVFP4, ("-fp4",)),  # As NVIDIA named its first ones.
    (Precision.MXFP8, ("mxfp8",)),
    (Precision.FP8, ("fp8",)),
    (Precision.INT8, ("int8", "w8a8", "w8a16")),
    (Precision.INT4, ("awq", "gptq", "int4", "w4a16", "bnb-4bit")),
    (Precision.BF16, ("bf16", "fp16")),
)


def known_model(name: str) -> KnownModel | None:
    """By a name or URI, with or without organisation, quantised as it says; None: not in the table.

    Also for models that only have the dimensions of a known one.
    """
    short = _without(_VARIANT, name)
    for known in KNOWN_MODELS:
        if short in (_without(_VARIANT, known.uri), *known.also):
            return replace(known, architecture=_quantised(known.architecture, precision_in(name)))
    return None


def _quantised(found: Architecture, precision: Precision | None) -> Architecture:
    """As its name says; without a word, as it is published."""
    if precision in (None, found.precision):
        return found
    return replace(found, precision=precision, weight_bytes_by_part=None)


def same_model(name: str) -> KnownModel | None:
    """`known_model`, of the very same weights, quantised or not."""
    known = known_model(name)
    if known is None:
        return None
    names = (_without(_QUANTISED, known.uri), known.architecture.name.lower())
    return known if _without(_QUANTISED, name) in names else None


def as_published(known: KnownModel) -> bool:
    """With the weights of its own repository, and no quantisation of others."""
    table = next(each for each in KNOWN_MODELS if each.uri == known.uri)
    return table.architecture.precision is known.architecture.precision


def precision_in(name: str) -> Precision | None:
    """What a model's name says of its weights; None: nothing."""
    words = name.lower()
    return next((p for p, marks in _PRECISIONS if any(mark in words for mark in marks)), None)


def _without(suffix: re.Pattern[str], name: str) -> str:
    """The last part of a name or URI in lower case, without such suffixes."""
    text = name.rstrip("/").rsplit("/", 1)[-1].lower()
    while (shorter := suffix.sub("", text)) != text:
        text = shorter
    return text.removeprefix("meta-")
