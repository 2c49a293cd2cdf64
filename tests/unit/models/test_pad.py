from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from examples.models.pad import WEIGHTS, pad, pad_tensors, read_safetensors, write_safetensors
from examples.models.shapes import EAGLE3, FEATURE_LAYERS, PADDED_TARGET, TARGET
from tests.unit.models.llama import logits

TOKENS = list(b"def pad(tensors):\n    return ")
HEAVY_BYTES = (75e6, 180e6)
"""More than any cache holds, and little enough for tens of steps per second."""


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


def test_the_shipped_target_has_learned_code() -> None:
    weights = read_safetensors(WEIGHTS / "target" / "model.safetensors")
    text = b"import os\n\nclass Reader:\n\n    def __init__(self, path):\n        self.path = path\n"
    scores = logits(weights, TARGET, list(text))[:-1]
    wrong_by = np.log(np.exp(scores).sum(-1)) - scores[np.arange(len(scores)), list(text)[1:]]
    assert wrong_by.mean() < 1.5  # nats per byte; 5.5 for a model that knows nothing


def test_a_step_of_the_padded_target_reads_heavy_weights(padded: Path) -> None:
    size = (padded / "target" / "model.safetensors").stat().st_size
    assert HEAVY_BYTES[0] < size < HEAVY_BYTES[1]


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


def test_padding_again_does_nothing(padded: Path) -> None:
    assert not pad(WEIGHTS, padded, PADDED_TARGET)


def test_another_shape_is_padded_anew(tmp_path: Path) -> None:
    small = replace(PADDED_TARGET, layers=5, intermediate=768)
    assert pad(WEIGHTS, tmp_path, small)
    assert not pad(WEIGHTS, tmp_path, small)
    assert pad(WEIGHTS, tmp_path, replace(small, layers=6))


def test_padding_is_deterministic(tmp_path: Path) -> None:
    small = replace(PADDED_TARGET, layers=5, intermediate=768)
    for name in ("one", "two"):
        pad(WEIGHTS, tmp_path / name, small)
    one, two = ((tmp_path / name / "target" / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


def test_tensors_survive_writing_and_reading(tmp_path: Path) -> None:
    tensors = {"b": np.arange(6, dtype=np.uint16).reshape(2, 3), "a": np.ones(1, dtype=np.uint16)}
    write_safetensors(tmp_path / "x.safetensors", tensors)
    read = read_safetensors(tmp_path / "x.safetensors")
    assert read.keys() == tensors.keys()
    for name in tensors:
        np.testing.assert_array_equal(read[name], tensors[name])


def test_the_shipped_weights_are_small() -> None:
    total = sum(path.stat().st_size for path in WEIGHTS.rglob("*") if path.is_file())
    assert total <= 12_000_000
