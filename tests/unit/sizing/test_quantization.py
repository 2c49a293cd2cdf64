"""How wide the weights of a quantised checkpoint are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sizing.architecture import Precision
from outrider.sizing.quantization import UnknownFormat, read_format
from tests.unit.sizing.factories import UNKNOWN, grouped

ATTENTION, MLP = "layers.3.self_attn.q_proj", "layers.3.mlp.up_proj"
EXPERT, SHARED, OUTPUT = "layers.3.mlp.experts.0.up_proj", "layers.3.mlp.shared_experts.up_proj", "lm_head"
FOUR_BIT_FLOATS = {"num_bits": 4, "type": "float", "group_size": 16}


def widths(settings: dict[str, Any], *modules: str) -> list[float]:
    found = read_format(settings)
    return [found.width(module) for module in modules]


@pytest.mark.parametrize(
    ("settings", "precision", "bytes_per_weight"),
    [
        ({"quant_method": "fp8"}, Precision.FP8, 1.0),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, Precision.FP8, 1.0),
        ({"quant_method": "fbgemm_fp8"}, Precision.FP8, 1.0),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, Precision.INT4, 0.5 + 2.5 / 128),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, Precision.INT4, 0.5 + 2.5 / 64),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, Precision.INT8, 1.0),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, Precision.INT4, 0.5),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, Precision.INT8, 1.0),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, Precision.INT4, 0.5 + 4 / 64),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            Precision.INT4,
            0.5 + 1 / 64,
        ),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only"}, Precision.INT4, 0.53),
        (
            {"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8WeightOnlyConfig"}}},
            Precision.FP8,
            1.0,
        ),
        (
            {
                "quant_method": "torchao",
                "quant_type": {"default": {"_type": "Int8DynamicActivationInt4WeightConfig"}},
            },
            Precision.INT4,
            0.53,
        ),
        (
            {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}},
            Precision.MXFP4,
            0.53125,
        ),
        (
            {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}},
            Precision.FP8,
            1.0,
        ),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, Precision.FP8, 1.0),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, Precision.NVFP4, 0.5625),
        ({"quantization": {"quant_algo": "NVFP4"}}, Precision.NVFP4, 0.5625),
        (
            {"quant_method": "modelopt", "config_groups": {"g": {"weights": FOUR_BIT_FLOATS}}},
            Precision.NVFP4,
            0.5625,
        ),
        (grouped({"num_bits": 8, "type": "float"}), Precision.FP8, 1.0),
        (grouped({"num_bits": 8, "type": "int"}), Precision.INT8, 1.0),
        (grouped(FOUR_BIT_FLOATS), Precision.NVFP4, 0.5625),
        (grouped({"num_bits": 4, "type": "float", "group_size": 32}), Precision.MXFP4, 0.53125),
        (
            grouped({"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True}),
            Precision.INT4,
            0.5625,
        ),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128}, Precision.INT4, 0.5 + 2.5 / 128),
    ],
    ids=str,
)
def test_layers_have_the_bytes_of_their_format_and_the_output_sixteen_bits(
    settings: dict[str, Any], precision: Precision, bytes_per_weight: float
) -> None:
    found = read_format(settings)
    assert found.precision is precision
    assert found.width(MLP) == pytest.approx(bytes_per_weight)
    assert found.width(OUTPUT) == 2.0


def test_mxfp4_of_gpt_oss_is_of_its_experts_alone() -> None:
    settings = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    assert widths(settings, EXPERT, ATTENTION, OUTPUT) == [0.53125, 2.0, 2.0]


@pytest.mark.parametrize(
    ("name", "patterns"),
    [
        ("ignore", ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*"]),
        ("ignore", ["model.layers.3.self_attn*", "model.layers.3.mlp.shared_experts*"]),
        ("ignored_layers", ["model.layers.3.self_attn.q_proj", "model.layers.3.mlp.shared_experts"]),
        ("modules_to_not_convert", ["self_attn", "shared_experts"]),
        ("modules_to_not_convert", ["language_model.model.layers.3.self_attn", "*shared_experts*"]),
    ],
)
def test_modules_that_are_left_out_have_sixteen_bits(name: str, patterns: list[str]) -> None:
    settings = grouped(FOUR_BIT_FLOATS, **{name: patterns})
    assert widths(settings, ATTENTION, SHARED, MLP, EXPERT) == [2.0, 2.0, 0.5625, 0.5625]


def test_a_layer_that_is_left_out_leaves_the_others_quantised() -> None:
    found = read_format({"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0"]})
    both = [(f"layers.{i}.mlp.up_proj", 1) for i in (0, 1)]
    assert found.mean(both) == (2.0 + 1.0) / 2


def test_a_gate_is_not_the_gate_of_an_mlp() -> None:
    """MiniMax leaves its routers out by the name `gate`."""
    settings = {"quant_method": "fp8", "modules_to_not_convert": ["gate", "lm_head"]}
    assert widths(settings, "layers.3.mlp.gate_proj") == [1.0]


def test_mixed_precision_has_the_bytes_that_it_lists() -> None:
    settings = {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {
            "model.language_model.layers.3.self_attn.q_proj": {"quant_algo": "FP8"},
            "model.language_model.layers.3.mlp.experts": {"quant_algo": "W4A16_NVFP4"},
            "lm_head": {"quant_algo": "W4A16_NVFP4"},
        },
    }
    assert widths(settings, ATTENTION, EXPERT, OUTPUT, MLP) == [1.0, 0.5625, 0.5625, 2.0]


@pytest.mark.parametrize("settings", UNKNOWN, ids=str)
def test_a_format_that_is_not_known_is_never_taken_for_sixteen_bits(settings: dict[str, Any]) -> None:
    with pytest.raises(UnknownFormat):
        read_format(settings)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_FIELDS = [
    "bits",
    "config_groups",
    "dynamic",
    "exclude",
    "global_quant_config",
    "group_size",
    "ignore",
    "layer_quant_config",
    "load_in_4bit",
    "quant_algo",
    "quant_type",
    "quantization",
    "quantized_layers",
    "sparsity_config",
]
_METHODS = [
    "mxfp4",
    "fp8",
    "awq",
    "compressed-tensors",
    "modelopt",
    "bitsandbytes",
    "torchao",
    "quark",
    "inc",
]


@given(
    method=st.sampled_from(_METHODS) | st.text(),
    settings=st.dictionaries(st.sampled_from(_FIELDS), JSON, max_size=3),
)
def test_whatever_a_quantisation_says_it_is_read_or_not_known(method: str, settings: dict[str, Any]) -> None:
    try:
        found = read_format({**settings, "quant_method": method})
    except UnknownFormat:
        return
    assert 0.4 < found.width(EXPERT) <= 2.0
