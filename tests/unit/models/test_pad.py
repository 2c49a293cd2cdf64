from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from examples.models.pad import WEIGHTS, pad, pad_tensors, read_safetensors
from examples.models.shapes import EAGLE3, FEATURE_LAYERS, PADDED_TARGET, TARGET
from tests.unit.models.llama import logits

TOKENS = list(b"def pad(tensors):\n    return ")


@pytest.fixture(scope="module")
def padded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("padded")
    assert pad(WEIGHTS, folder, PADDED_TARGET)
    return folder


def test_the_padded_target_computes_the_same_logits() -> None:
    weights = read_safetensors(WEIGHTS / "target" / "model.safetensors")
    shape = replace(PADDED_TARGET, layers=6, intermediate=1024)
    heavy = pad_tensors(weights, TARGET.layers, shape)
    expected = logits(weights, TARGET, TOKENS)
    np.testing.assert_allclose(logits(heavy, shape, TOKENS), expected, rtol=0, atol=1e-9)


def test_the_config_says_what_the_weights_are(padded: Path) -> None:
    config = json.loads((padded / "target" / "config.json").read_text())
    tensors = read_safetensors(padded / "target" / "model.safetensors")
    layers = {name.split(".")[2] for name in tensors if name.startswith("model.layers.")}
    assert len(layers) == config["num_hidden_layers"] == PADDED_TARGET.layers
    rows = tensors["model.layers.0.mlp.gate_proj.weight"].shape[0]
    assert rows == config["intermediate_size"] == PADDED_TARGET.intermediate


def test_the_eagle3_head_reads_layers_that_padding_leaves_as_they_are(padded: Path) -> None:
    told = json.loads((padded / "eagle3" / "config.json").read_text())["eagle_config"]
    assert told["eagle_aux_hidden_state_layer_ids"] == list(FEATURE_LAYERS)
    assert max(FEATURE_LAYERS) <= TARGET.layers


def test_the_eagle3_head_has_the_shape_of_its_target_and_no_embedding_of_its_own(padded: Path) -> None:
    tensors = read_safetensors(padded / "eagle3" / "model.safetensors")
    assert tensors["fc.weight"].shape == (TARGET.hidden, len(FEATURE_LAYERS) * TARGET.hidden)
    assert tensors["layers.0.self_attn.q_proj.weight"].shape == (EAGLE3.hidden, 2 * EAGLE3.hidden)
    assert not [name for name in tensors if "embed" in name]


def test_target_and_drafter_share_the_vocabulary(padded: Path) -> None:
    target, drafter = ((padded / name / "tokenizer.json").read_bytes() for name in ("target", "drafter"))
    assert target == drafter


def test_padding_is_deterministic(tmp_path: Path) -> None:
    small = replace(PADDED_TARGET, layers=5, intermediate=768)
    for name in ("one", "two"):
        pad(WEIGHTS, tmp_path / name, small)
    one, two = ((tmp_path / name / "target" / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two
