"""The tiny target with its own drafting layer: what vLLM finds in it, and that the target is untouched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.models.mimo import LAYER, assemble
from examples.models.pad import WEIGHTS, Words, read_safetensors
from examples.models.shapes import TARGET

LAYER_WEIGHTS = {
    "token_layernorm",
    "hidden_layernorm",
    "input_proj",
    "input_layernorm",
    *(f"self_attn.{name}_proj" for name in "qkvo"),
    "post_attention_layernorm",
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
    "final_layernorm",
}
"""As vLLM 0.32.0 names them in `mimo_mtp.py`."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assemble(WEIGHTS, tmp_path_factory.mktemp("mimo"))


@pytest.fixture(scope="module")
def tensors(model: Path) -> dict[str, Words]:
    return read_safetensors(model / "model.safetensors")


def test_every_attention_has_biases_and_they_are_zero(tensors: dict[str, Words]) -> None:
    """So it computes what the target computes."""
    biases = {name: tensor for name, tensor in tensors.items() if name.endswith("bias")}
    assert len(biases) == 3 * (TARGET.layers + 1)
    assert {tensor.shape for tensor in biases.values()} == {(TARGET.hidden,)}
    assert not any(tensor.any() for tensor in biases.values())


def test_the_layer_has_the_weights_that_vllm_looks_for(tensors: dict[str, Words]) -> None:
    names = {name.removeprefix(LAYER) for name in tensors if name.startswith(LAYER)}
    assert {name.removesuffix(".weight") for name in names if name.endswith("weight")} == LAYER_WEIGHTS
    assert tensors[f"{LAYER}input_proj.weight"].shape == (TARGET.hidden, 2 * TARGET.hidden)


def test_the_configuration_names_one_layer_that_drafts(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    assert (config["architectures"], config["num_nextn_predict_layers"]) == (["MiMoForCausalLM"], 1)
    assert config["num_hidden_layers"] == TARGET.layers
