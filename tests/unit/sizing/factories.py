"""Questions with good defaults."""

from __future__ import annotations

from typing import Any

from outrider.sizing.architecture import Architecture
from outrider.sizing.drafters import DraftingModel, draft_model, eagle_head
from outrider.sizing.forecast import Question
from outrider.sizing.gpus import Gpu, gpu_named
from outrider.sizing.memory import Load
from outrider.sizing.models import known_model
from outrider.sizing.speed import FormulaSpeeds
from outrider.sizing.spread import Spread
from outrider.sizing.tasks import PRESETS, Task
from outrider_protocol.methods import Method

CHAT = PRESETS[Task.CHAT].acceptance


def a_known(name: str) -> Architecture:
    found = known_model(name)
    assert found is not None, name
    return found.architecture


def a_gpu(name: str = "H100") -> Gpu:
    found = gpu_named(name)
    assert found is not None, name
    return found


def a_drafter(target: Architecture, name: str = "eagle3") -> DraftingModel:
    """An EAGLE-3 head of the target's size, or the named model."""
    return eagle_head(Method.EAGLE3, target) if name == "eagle3" else draft_model(a_known(name), "a test")


def some_speeds(
    model: str = "Llama-3.1-8B",
    gpu: str = "H100",
    *,
    drafter: str = "eagle3",
    tensor: int = 1,
    context: float = 2048.0,
    acceptance: tuple[float, ...] = CHAT,
) -> FormulaSpeeds:
    target = a_known(model)
    return FormulaSpeeds(target, a_drafter(target, drafter), a_gpu(gpu), Spread(tensor), context, acceptance)


def a_question(
    model: str = "Llama-3.1-8B", gpu: str = "H100", drafter: str = "eagle3", **changes: Any
) -> Question:
    target = a_known(model)
    given: dict[str, Any] = {
        "spread": Spread(),
        "memory_share": 0.94,
        "max_num_seqs": 256,
        "load": Load(8, 4096),
        **changes,
    }
    return Question(target, a_drafter(target, drafter), a_gpu(gpu), **given)


LLAMA: dict[str, object] = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}


def grouped(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        **more,
    }


UNKNOWN: list[Any] = [
    {},
    {"quant_method": "exl3"},
    {"quant_method": "gguf"},
    {"quant_method": "hqq", "bits": 4},
    {"quant_method": "gptq", "bits": 3},
    {"quant_method": "awq"},
    {"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down.*": {"bits": 8}}},
    {"quant_method": "modelopt", "quant_algo": "W4A8_TOMORROW"},
    {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"},
    {"quant_method": "modelopt"},
    {"quant_method": "bitsandbytes"},
    {"quant_method": "torchao", "quant_type": "uintx_weight_only"},
    {"quant_method": "torchao", "quant_type": {"default": None, "lm_head": None}},
    {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp6"}}},
    {"quant_method": "quark", "layer_quant_config": {"a": {}}},
    {"quant_method": "auto-round", "bits": 4, "data_type": "mx_fp"},
    grouped({"num_bits": 6, "type": "float"}),
    grouped({"num_bits": 2, "type": "int"}),
    grouped({"num_bits": 8, "type": "float"}, sparsity_config={"format": "sparse-24-bitmask"}),
    grouped({"num_bits": 8, "type": "float"}, ignore=["re:("]),
]
