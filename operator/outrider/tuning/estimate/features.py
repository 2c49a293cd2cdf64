"""The terms of the linear step-time model, with the prior of each weight.

Log step seconds are about the sum over features of weight x value. The prior is wide enough for a CPU and an
H100.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_WIDE_OCTAVES = 5.0
"""log2 of batch 32. The weight of `depth x batch` is the additional cost of depth there, against batch 1."""


@dataclass(frozen=True)
class Places:
    """Points of steps, one row each."""

    k: Array  # [n]
    batch: Array  # [n]: log2
    context: Array  # [n]: log2 over 1,024 tokens
    prompts: Array  # [n]: log of all tokens of a step over its tokens outside of prompts
    depth: Array  # [n]: log(1 + K)


@dataclass(frozen=True)
class Feature:
    """One term: the prior of its weight, and its value."""

    name: str
    mean: float
    deviation: float
    value: Callable[[Places], Array | float]


FEATURES: Sequence[Feature] = (
    Feature("level", -3.5, 1.5, lambda _: 1.0),
    Feature("batch", 0.15, 0.20, lambda at: at.batch),
    Feature("drafting", 0.05, 0.10, lambda at: np.where(at.k > 0, 1.0, 0.0)),
    Feature("depth", 0.35, 0.25, lambda at: at.depth),
    Feature("depth x batch", 0.50, 0.30, lambda at: at.depth * at.batch / _WIDE_OCTAVES),
    Feature("context", 0.05, 0.10, lambda at: at.context),
    Feature("depth x context", 0.0, 0.02, lambda at: at.depth * at.context),
    # 1 if step time is proportional to tokens, and 0 if more tokens cost nothing.
    Feature("ratio of prompts", 0.3, 0.4, lambda at: at.prompts),
)

MEANS = np.array([feature.mean for feature in FEATURES])
VARIANCES = np.array([feature.deviation for feature in FEATURES]) ** 2


def values(at: Places) -> Array:
    """Return the values of all features, [n, features]."""
    found = np.empty((len(at.k), len(FEATURES)))
    for column, feature in enumerate(FEATURES):
        found[:, column] = feature.value(at)
    return found
