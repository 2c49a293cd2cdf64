"""The tiny target with a layer of its own that drafts (multi-token prediction), as one MiMo model.

    python -m examples.models.mimo --output DIR

MiMo is Qwen2 with such layers, and Qwen2 is Llama with biases on queries, keys and values. With biases of
zero it computes what the target computes, so its answers can be compared with the target's.

Source: vLLM 0.32.0, `model_executor/models/mimo.py` and `mimo_mtp.py`, for the names of the weights;
`config/speculative.py` knows the model by its architecture, so the configuration is Qwen2's.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from examples.models.pad import WEIGHTS, Words, read_safetensors, write_safetensors

LAYER = "model.mtp_layers.0."
"""Before the name of each of the layer's weights."""


def main() -> None:
    """Write the model into ``--output``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    assemble(WEIGHTS, parser.parse_args().output)


def assemble(weights: Path, output: Path) -> Path:
    """Write the target of `weights` with its layer as a model of its own into `output`."""
    output.mkdir(parents=True, exist_ok=True)
    for file in (weights / "target").glob("*.json"):
        shutil.copy(file, output)
    config = json.loads((weights / "target" / "config.json").read_text())
    (output / "config.json").write_text(json.dumps(described(config), indent=2) + "\n")
    tensors = read_safetensors(weights / "target" / "model.safetensors")
    layer = read_safetensors(weights / "mtp" / "model.safetensors")
    write_safetensors(output / "model.safetensors", with_biases(tensors) | with_biases(named(layer)))
    return output


def described(config: Mapping[str, object]) -> dict[str, object]:
    """The configuration of a Llama as that of a MiMo model with one layer that drafts."""
    own = {"architectures": ["MiMoForCausalLM"], "model_type": "qwen2", "num_nextn_predict_layers": 1}
    return {**config, **own}


def named(layer: Mapping[str, Words]) -> dict[str, Words]:
    """The layer's weights under the names that they have in a model."""
    return {LAYER + name: tensor for name, tensor in layer.items()}


def with_biases(tensors: Mapping[str, Words]) -> dict[str, Words]:
    """With biases of zero where Qwen2 has some."""
    projections = ("q_proj.weight", "k_proj.weight", "v_proj.weight")
    biases = {
        name.removesuffix("weight") + "bias": np.zeros(tensor.shape[0], dtype=tensor.dtype)
        for name, tensor in tensors.items()
        if name.endswith(projections)
    }
    return {**tensors, **biases}


if __name__ == "__main__":
    main()
