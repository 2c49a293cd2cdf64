"""What drafting and verifying cost, as vLLM measures it once at start."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from outrider.performance.step_time import StepTime

Floats = NDArray[np.float64]


class CostCurves:
    """Seconds of drafting by requests, and of verifying by tokens.

    vLLM profiles dummy batches of each captured size, with one token per request up to the largest batch, and
    the same context for every request. Simulated engines pad nothing, so that every size counts as captured.
    The curves have no error.

    longest: draft length that the engine was launched with; drafting always costs as much.
    """

    def __init__(
        self, step: StepTime, *, longest: int, largest_batch: int, largest_tokens: int, context: float
    ) -> None:
        requests = np.arange(largest_batch + 1)
        tokens = np.arange(largest_tokens + 1)
        cached = np.minimum(tokens, largest_batch) * context
        self._draft = np.array([step.draft_seconds(n, longest, n * context) for n in requests.tolist()])
        self._verify = np.array(
            [step.target_seconds(n, kv) for n, kv in zip(tokens.tolist(), cached.tolist(), strict=True)]
        )

    def step(self, requests: int, tokens: int, drafts: int) -> Floats:
        """Seconds of a step with 0, 1, 2 ... verified drafts. tokens: all others of the batch."""
        found: Floats = self._draft[requests] + self._verify[tokens : tokens + drafts + 1]
        return found
