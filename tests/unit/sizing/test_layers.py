"""Which layers of a model attend in which way, and which have experts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sizing.architecture import Architecture
from outrider.sizing.drafters import without_weights
from outrider.sizing.hf_config import ConfigError, read_config
from outrider.sizing.memory import Load, Verdict, memory
from outrider.sizing.spread import Spread
from outrider_protocol.methods import Method
from tests.unit.sizing.factories import LLAMA, UNKNOWN, a_known

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 1024}
DELTA_NET = {
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
}
LATENT = {
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}


def read(**changes: Any) -> Architecture:
    return read_config(json.dumps({**LLAMA, **changes}), name="config.json")


def kinds(found: Architecture) -> list[tuple[int, int | None]]:
    """Layers of each kind, and its window."""
    return [(kind.layers, kind.window) for kind in found.attention_kinds]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_type": "llama"}, [(32, None)]),
        ({"model_type": "mistral", "sliding_window": 4096}, [(32, 4096)]),
        ({"model_type": "mistral", "sliding_window": None}, [(32, None)]),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, [(32, None)]),
        (
            {
                "model_type": "qwen3",
                "sliding_window": 64,
                "use_sliding_window": True,
                "max_window_layers": 20,
            },
            [(20, None), (12, 64)],
        ),
        ({"model_type": "gpt_oss", "sliding_window": 128}, [(16, 128), (16, None)]),
        ({"model_type": "gemma2", "sliding_window": 4096}, [(16, 4096), (16, None)]),
        ({"model_type": "gemma3_text", "sliding_window": 1024}, [(27, 1024), (5, None)]),
        ({"sliding_window": 512, "layer_types": [SLIDING, FULL] * 16}, [(16, 512), (16, None)]),
        ({"sliding_window": 512, "sliding_window_pattern": "LLLG"}, [(24, 512), (8, None)]),
        ({"model_type": "llama4_text", "attention_chunk_size": 8192}, [(24, 8192), (8, None)]),
        ({"full_attention_interval": 4, **DELTA_NET}, [(24, None), (8, None)]),
        ({"layer_types": [LINEAR, LINEAR, LINEAR, FULL] * 8, **DELTA_NET}, [(24, None), (8, None)]),
    ],
    ids=str,
)
def test_each_layer_is_in_its_kind(changes: dict[str, Any], expected: list[tuple[int, int | None]]) -> None:
    found = read(**changes)
    assert kinds(found) == expected
    assert found.unknown == ()


def test_linear_attention_keeps_a_state_and_no_cache() -> None:
    linear, full = read(full_attention_interval=4, mamba_ssm_dtype="float32", **DELTA_NET).attention_kinds
    assert linear.cache_bytes == 0
    assert linear.state_bytes == 32 * 128 * 128 * 4 + 3 * (2 * 16 + 32) * 128 * 2
    assert full.cache_bytes > 0


@pytest.mark.parametrize(
    ("changes", "dense"),
    [
        ({}, 0),
        ({"first_k_dense_replace": 3}, 3),
        ({"first_k_dense_replace": 1, "moe_layer_freq": 1}, 1),
        ({"decoder_sparse_step": 2}, 16),
        ({"decoder_sparse_step": 1, "mlp_only_layers": [0, 5]}, 2),
        ({"model_type": "llama4_text", "interleave_moe_layer_step": 2}, 16),
        ({"moe_layer_freq": [0, 1] * 16}, 16),
        ({"mlp_layer_types": ["dense"] * 4 + ["sparse"] * 28}, 4),
    ],
    ids=str,
)
def test_dense_layers_between_experts_are_counted(changes: dict[str, Any], dense: int) -> None:
    found = read(**EXPERTS, **changes)
    assert (found.dense_layers, found.expert_layers) == (dense, 32 - dense)
    assert found.unknown == ()


def test_llama_4_has_the_parameters_of_its_name() -> None:
    """Maverick has experts in each second layer: 400 billion, and not 778."""
    assert a_known("Llama-4-Maverick-17B-128E-Instruct").parameters / 1e9 == pytest.approx(400, rel=0.01)


def test_experts_need_no_width_of_an_mlp_that_they_do_not_have() -> None:
    """Qwen3_5MoeTextConfig has no `intermediate_size`."""
    given = {key: value for key, value in LLAMA.items() if key != "intermediate_size"}
    found = read_config(json.dumps({**given, **EXPERTS}), name="x")
    assert (found.experts, found.intermediate) == (8, 1024)
    with pytest.raises(ConfigError, match="intermediate_size"):
        read_config(json.dumps(given), name="x")


def test_latent_attention_keeps_the_latent_and_the_rotated_key() -> None:
    (kind,) = read(**LATENT).attention_kinds
    assert (kind.cache_bytes, kind.heads) == ((512 + 64) * 2, 1)


def test_the_index_of_sparse_attention_is_cached_too() -> None:
    (kind,) = read(**LATENT, index_n_heads=64, index_head_dim=128).attention_kinds
    assert kind.cache_bytes == (512 + 64) * 2 + 128 + 4


def test_experts_that_every_token_passes_are_counted() -> None:
    shared = read(**EXPERTS, n_shared_experts=1)
    assert shared.parameters - read(**EXPERTS).parameters == 32 * 3 * 4096 * 1024


def test_a_vision_tower_is_counted() -> None:
    tower = {"num_hidden_layers": 27, "hidden_size": 1152, "intermediate_size": 4304}
    found = read_config(json.dumps({"text_config": LLAMA, "vision_config": tower}), name="x")
    assert found.other_parameters / 1e6 == pytest.approx(411, rel=0.01)


NOT_KNOWN: list[dict[str, Any]] = [
    {"model_type": "nemotron_h"},
    {"model_type": "model_of_tomorrow"},
    {"hybrid_override_pattern": "M*ME"},
    {"layers_block_type": ["mamba", "attention"]},
    {"attn_layer_period": 8},
    {"linear_attn_config": {"kda_layers": [1]}},
    {"compress_ratios": [0, 4]},
    {"attn_type_list": [0, 1]},
    {"mamba_d_state": 16},
    {"num_kv_shared_layers": 4},
    {"hidden_size_per_layer_input": 256},
    {"expert_dtype": "fp4"},
    {"sparse_attention_config": {"use_sparse_attention": True}},
    {"quantization_config": {}},
    {"compression_config": {"quant_method": "sparse-of-tomorrow"}},
    {"layer_types": ["conv"] + [FULL] * 31},
    {"layer_types": [FULL]},
    {"layer_types": [LINEAR] * 32},
    {"layer_types": [SLIDING] * 32},
    {"full_attention_interval": 4},
    {"linear_num_key_heads": 16},
    {"sliding_window": 512},
    {"kv_lora_rank": 512},
    {"kv_lora_rank": 512, "layer_types": [LINEAR] * 32, "qk_rope_head_dim": 64},
    {**EXPERTS, "moe_layer_freq": [1]},
    {**EXPERTS, "mlp_layer_types": ["odd"] * 32},
    *({"quantization_config": settings} for settings in UNKNOWN if settings),
]


@pytest.mark.parametrize("changes", NOT_KNOWN, ids=str)
def test_a_kind_that_is_not_known_is_said(changes: dict[str, Any]) -> None:
    assert read(**changes).unknown != ()


def test_a_language_model_without_a_type_is_of_the_type_around_it() -> None:
    text = json.dumps({"model_type": "minimax_m3_vl", "text_config": LLAMA})
    assert read_config(text, name="x").unknown == ("the layers of model_type minimax_m3_vl",)


def test_a_field_that_other_layers_do_not_have_is_not_only_asked_for() -> None:
    given = {key: value for key, value in LLAMA.items() if key != "num_hidden_layers"}
    with pytest.raises(ConfigError, match="the layers of model_type nemotron_h are not known here"):
        read_config(json.dumps({**given, "model_type": "nemotron_h"}), name="x")


def test_a_quantisation_of_modules_that_nothing_has_is_not_known() -> None:
    odd = {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {"model.blocks.3.ffn": {"quant_algo": "NVFP4"}},
    }
    assert read(quantization_config=odd).unknown == ("weights: which modules are in nvfp4; pass --weights",)


def test_experts_in_the_words_of_mixtral_are_found() -> None:
    expert = {
        f"model.layers.{i}.block_sparse_moe.experts.0.w{n}": {"quant_algo": "NVFP4"}
        for i in range(32)
        for n in (1, 2, 3)
    }
    mixed = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": expert}
    found = read(**EXPERTS, quantization_config=mixed)
    assert found.unknown == ()
    assert found.bytes_by_part.experts == pytest.approx(0.5625)


@given(
    changes=st.sampled_from(NOT_KNOWN),
    gigabytes=st.floats(0.1, 10_000),
    tensor=st.integers(1, 64),
    streams=st.integers(1, 1024),
    context=st.integers(1, 1_000_000),
)
def test_what_is_not_known_never_gets_a_verdict(
    changes: dict[str, Any], gigabytes: float, tensor: int, streams: int, context: int
) -> None:
    held = memory(
        read(**changes),
        without_weights(Method.NONE),
        gigabytes * 1e9,
        spread=Spread(tensor),
        share=0.9,
        candidates=(0,),
        load=Load(streams, context),
    )
    assert held.verdict is Verdict.NOT_KNOWN
