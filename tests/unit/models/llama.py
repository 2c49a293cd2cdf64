"""A plain Llama forward pass in float64, to compare weights with: no cache, no batching."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from examples.models.shapes import Shape

Weights = Mapping[str, NDArray[np.uint16]]
Floats = NDArray[np.float64]
EPSILON = 1e-6
ROPE_THETA = 10_000.0


def logits(weights: Weights, shape: Shape, tokens: list[int]) -> Floats:
    """Logits [positions, vocabulary]."""
    w = {name: _floats(words) for name, words in weights.items()}
    x = w["model.embed_tokens.weight"][tokens]
    for layer in range(shape.layers):
        p = f"model.layers.{layer}"
        x = x + _attention(w, f"{p}.self_attn", _norm(x, w[f"{p}.input_layernorm.weight"]), shape.heads)
        x = x + _mlp(w, f"{p}.mlp", _norm(x, w[f"{p}.post_attention_layernorm.weight"]))
    return _norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


def _floats(words: NDArray[np.uint16]) -> Floats:
    """bfloat16 is the upper half of float32."""
    floats: Floats = (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return floats


def _norm(x: Floats, weight: Floats) -> Floats:
    normed: Floats = x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON) * weight
    return normed


def _mlp(w: Mapping[str, Floats], p: str, x: Floats) -> Floats:
    gate = x @ w[f"{p}.gate_proj.weight"].T
    inner: Floats = gate / (1 + np.exp(-gate)) * (x @ w[f"{p}.up_proj.weight"].T)
    return inner @ w[f"{p}.down_proj.weight"].T


def _attention(w: Mapping[str, Floats], p: str, x: Floats, heads: int) -> Floats:
    positions = len(x)
    q, k, v = ((x @ w[f"{p}.{name}_proj.weight"].T).reshape(positions, heads, -1) for name in "qkv")
    scores = np.einsum("ihd,jhd->hij", _rotate(q), _rotate(k)) / np.sqrt(q.shape[-1])
    scores[:, np.triu(np.ones((positions, positions), dtype=bool), 1)] = -np.inf
    chances = np.exp(scores - scores.max(-1, keepdims=True))
    chances /= chances.sum(-1, keepdims=True)
    mixed: Floats = np.einsum("hij,jhd->ihd", chances, v).reshape(positions, -1)
    return mixed @ w[f"{p}.o_proj.weight"].T


def _rotate(x: Floats) -> Floats:
    half = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None] * ROPE_THETA ** (-np.arange(half) / half)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    left, right = x[..., :half], x[..., half:]
    return np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)
