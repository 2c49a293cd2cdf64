from __future__ import annotations

from dataclasses import replace

import numpy as np

from examples.models.pad import WEIGHTS, pad_tensors, read_safetensors
from examples.models.shapes import PADDED_TARGET, TARGET
from tests.unit.models.llama import logits

TOKENS = list(b"def pad(tensors):\n    return ")


def test_the_padded_target_computes_the_same_logits() -> None:
    weights = read_safetensors(WEIGHTS / "target" / "model.safetensors")
    shape = replace(PADDED_TARGET, layers=6, intermediate=1024)
    heavy = pad_tensors(weights, TARGET.layers, shape)
    expected = logits(weights, TARGET, TOKENS)
    np.testing.assert_allclose(logits(heavy, shape, TOKENS), expected, rtol=0, atol=1e-9)
