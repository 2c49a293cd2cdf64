"""Well-known models by name. Dimensions are those of each config.json on the Hugging Face hub."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from outrider.sizing.architecture import Architecture, Precision


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model, and the drafter that is published for it."""

    uri: str
    architecture: Architecture
    drafter_uri: str | None = None  # EAGLE-3
    also: tuple[str, ...] = ()  # other models of the same dimensions

    @property
    def source(self) -> str:
        """Where the dimensions were read."""
        return f"config.json of {self.uri.removeprefix('hf://')}"


def _speculator(name: str) -> str:
    return f"hf://RedHatAI/{name}-speculator.eagle3"


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
)

_WEIGHTS = r"fp8|bf16|fp16|awq|gptq|int4|w4a16|quantized\.w4a16|dynamic"
_QUANTISED = re.compile(f"-({_WEIGHTS})$")
_VARIANT = re.compile(f"-({_WEIGHTS}|instruct|it|chat|base|hf|2507)$")
_PRECISIONS = ((Precision.FP8, ("fp8",)), (Precision.INT4, ("awq", "gptq", "int4", "w4a16")))


def known_model(name: str) -> KnownModel | None:
    """By a name or URI, with or without organisation, quantised as it says; None: not in the table.

    Also for models that only have the dimensions of a known one.
    """
    short = _without(_VARIANT, name)
    for known in KNOWN_MODELS:
        if short in (_without(_VARIANT, known.uri), *known.also):
            precision = precision_in(name) or known.architecture.precision
            return replace(known, architecture=replace(known.architecture, precision=precision))
    return None


def same_model(name: str) -> KnownModel | None:
    """`known_model`, of the very same weights, quantised or not."""
    known = known_model(name)
    if known is None:
        return None
    names = (_without(_QUANTISED, known.uri), known.architecture.name.lower())
    return known if _without(_QUANTISED, name) in names else None


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
