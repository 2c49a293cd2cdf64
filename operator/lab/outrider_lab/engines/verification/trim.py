"""Which drafts of a batch are verified: vLLM's rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def budgets(confidences: Floats, sampling: float, seconds: Floats) -> Ints:
    """Number of drafts to verify in each step: the one with the most expected tokens per second.

    confidences: by step, request and position; their products along a request are the chances to survive.
    sampling: requests that get a token in any case.
    seconds: of a step that verifies 0, 1, 2 ... drafts of the batch.
    """
    survival = np.cumprod(confidences, axis=2).reshape(len(confidences), -1)
    best_first = -np.sort(-survival, axis=1)
    tokens = np.concatenate([np.zeros((len(survival), 1)), np.cumsum(best_first, axis=1)], axis=1) + sampling
    found: Ints = np.argmax(tokens / seconds[: tokens.shape[1]], axis=1)
    return found


def widths(confidences: Floats, allowed: Ints) -> Ints:
    """Drafts of each request that are verified: over the batch, the most likely ones survive.

    allowed: drafts of each step.
    """
    steps, requests, positions = confidences.shape
    survival = np.cumprod(confidences, axis=2).reshape(steps, -1)
    rank = np.argsort(np.argsort(-survival, axis=1, kind="stable"), axis=1, kind="stable")
    admitted = (rank < allowed[:, None]).reshape(steps, requests, positions)
    found: Ints = admitted.sum(axis=2)
    return found
