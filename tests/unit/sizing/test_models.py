"""Dimensions of models: the built-in table, and config.json."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sizing.architecture import Architecture, Precision
from outrider.sizing.hf_config import ConfigError, read_config
from outrider.sizing.models import KNOWN_MODELS, known_model
from tests.unit.sizing.factories import LLAMA, a_drafter, a_known


def config(**changes: object) -> Architecture:
    return read_config(json.dumps({**LLAMA, **changes}), name="config.json")


@pytest.mark.parametrize(
    ("name", "billions", "active"),
    [
        ("Llama-3.1-8B", 8.03, None),
        ("Llama-3.3-70B", 70.55, None),
        ("Llama-3.1-405B", 405.9, None),
        ("Llama-3.2-1B", 1.236, None),
        ("Llama-3.2-3B", 3.213, None),
        ("Qwen2.5-7B", 7.616, None),
        ("Qwen2.5-0.5B", 0.494, None),
        ("Qwen3-0.6B", 0.596, None),
        ("Qwen3-8B", 8.191, None),
        ("Qwen3-14B", 14.77, None),
        ("Qwen3-32B", 32.76, None),
        ("Qwen3-30B-A3B", 30.53, 3.04),
        # As transformers builds them from these fields, without layers for next tokens.
        ("gpt-oss-120b", 116.83, 5.13),
        ("gpt-oss-20b", 20.91, 3.61),
        ("DeepSeek-V3", 671.03, 36.6),
        ("DeepSeek-V3.2", 671.88, 37.5),
        ("Kimi-K2-Instruct", 1026.4, 31.7),
        ("GLM-4.5-Air", 106.85, 12.8),
        ("GLM-5", 743.9, 40.8),
        ("MiniMax-M2", 228.69, 10.42),
        ("gemma-3-27b-it", 27.43, None),
        ("gemma-3-12b-it", 12.19, None),
        ("gemma-4-31B-it", 31.1, None),
        ("Mistral-Small-24B-Instruct-2501", 23.57, None),
        ("Mistral-Large-Instruct-2411", 122.61, None),
        ("Qwen3-Next-80B-A3B-Instruct", 79.67, None),
        ("Llama-4-Scout-17B-16E-Instruct", 107.77, None),
    ],
)
def test_the_dimensions_give_the_published_number_of_parameters(
    name: str, billions: float, active: float | None
) -> None:
    found = a_known(name)
    assert found.parameters / 1e9 == pytest.approx(billions, rel=0.002)
    if active is not None:
        assert found.active_parameters / 1e9 == pytest.approx(active, rel=0.01)


def test_every_known_model_is_found_by_its_uri() -> None:
    for known in KNOWN_MODELS:
        assert known_model(known.uri) == known


@pytest.mark.parametrize(
    ("name", "model", "precision"),
    [
        ("pvc://llama-weights/Llama-3.1-70B-Instruct-FP8", "Llama-3.3-70B", Precision.FP8),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "Llama-3.1-8B", Precision.FP8),
        ("Qwen/Qwen3-8B-AWQ", "Qwen3-8B", Precision.INT4),
        ("Qwen3-Coder-30B-A3B-Instruct", "Qwen3-30B-A3B", Precision.BF16),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "Qwen2.5-7B", Precision.INT8),
        ("nvidia/DeepSeek-R1-FP4", "DeepSeek-R1", Precision.NVFP4),
        ("zai-org/GLM-4.7-FP8", "GLM-4.7", Precision.FP8),
        ("deepseek-ai/DeepSeek-R1", "DeepSeek-R1", Precision.FP8),
        ("openai/gpt-oss-120b", "gpt-oss-120b", Precision.MXFP4),
        ("unsloth/gpt-oss-120b-BF16", "gpt-oss-120b", Precision.BF16),
    ],
)
def test_a_model_is_known_under_the_names_of_its_checkpoints(
    name: str, model: str, precision: Precision
) -> None:
    found = a_known(name)
    assert (found.name, found.precision) == (model, precision)


@pytest.mark.parametrize("name", ["Qwen3-80B", "llama", "", "Llama-3.1-8B-Guard"])
def test_a_model_that_is_not_in_the_table_is_not_taken_for_another(name: str) -> None:
    assert known_model(name) is None


def test_a_config_gives_the_model_of_the_table() -> None:
    assert config().parameters == a_known("Llama-3.1-8B").parameters


def test_a_config_within_another_is_read() -> None:
    nested = read_config(json.dumps({"text_config": LLAMA}), name="x")
    assert nested.parameters == config().parameters


@pytest.mark.parametrize(
    ("quantization", "precision"),
    [
        ({"quant_method": "fp8"}, Precision.FP8),
        ({"quant_method": "awq", "bits": 4}, Precision.INT4),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}},
            Precision.INT8,
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4}}}},
            Precision.INT4,
        ),
    ],
)
def test_a_config_says_how_wide_its_weights_are(quantization: object, precision: Precision) -> None:
    assert config(quantization_config=quantization).precision is precision


def test_experts_are_counted_with_their_own_width() -> None:
    found = config(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=1024)
    assert (found.experts, found.experts_per_token, found.intermediate) == (8, 2, 1024)


@pytest.mark.parametrize(
    "experts", ["num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts"]
)
@pytest.mark.parametrize(
    "chosen", ["num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k"]
)
def test_experts_have_the_names_that_vllm_reads(experts: str, chosen: str) -> None:
    found = config(**{experts: 8, chosen: 2})
    assert (found.experts, found.experts_per_token) == (8, 2)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "config"),
        ("{}", "num_hidden_layers"),
        (json.dumps({**LLAMA, "hidden_size": 0}), "hidden_size"),
        (json.dumps({**LLAMA, "hidden_size": "big"}), "hidden_size"),
        (json.dumps({**LLAMA, "num_attention_heads": 5000}), "there are 5000 heads"),
        (json.dumps({**LLAMA, "num_experts": 4, "num_experts_per_tok": 8}), "num_experts_per_tok is 8"),
    ],
)
def test_a_config_that_cannot_be_used_is_refused_with_its_field(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match="x") as refused:
        read_config(text, name="x")
    assert complaint in str(refused.value)


def test_an_eagle_3_head_has_the_size_of_the_published_one() -> None:
    """yuhuili/EAGLE3-LLaMA3.1-Instruct-8B takes 850 MB."""
    assert a_drafter(a_known("Llama-3.1-8B")).weight_bytes / 1e6 == pytest.approx(850, rel=0.01)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    changes=st.dictionaries(
        st.sampled_from([*LLAMA, "head_dim", "num_experts", "quantization_config"]), _JSON
    )
)
def test_whatever_a_config_says_it_is_a_model_or_refused(changes: dict[str, object]) -> None:
    try:
        found = config(**changes)
    except ConfigError:
        return
    assert found.cache_bytes_per_token > 0
    assert found.weight_bytes > 0
