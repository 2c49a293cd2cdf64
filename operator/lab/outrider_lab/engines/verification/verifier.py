"""Adaptive verification of one engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from outrider.performance.step_time import StepTime
from outrider_lab.engines.verification.costs import CostCurves
from outrider_lab.engines.verification.estimator import AcceptanceEstimator
from outrider_lab.engines.verification.setting import AdaptiveVerification
from outrider_lab.engines.verification.trim import budgets, widths

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Verifier:
    """Estimates, chooses and learns. longest: draft length of the launch. largest_tokens: of a step."""

    def __init__(
        self,
        step: StepTime,
        setting: AdaptiveVerification,
        *,
        longest: int,
        largest_batch: int,
        largest_tokens: int,
    ) -> None:
        self.estimator = AcceptanceEstimator(longest)
        self._curves = CostCurves(
            step,
            longest=longest,
            largest_batch=largest_batch,
            largest_tokens=largest_tokens,
            context=setting.profile_context,
        )

    def widths(self, before: Floats, now: Floats, *, prompt_tokens: int = 0, first: int = 0) -> Ints:
        """Drafts of each request that are verified, by step and request.

        before: log-odds of the drafts one step earlier. By these vLLM sets the number of drafts, because
        newer ones have not arrived at the host. now: those of the drafts at hand, among which it chooses.
        first: requests that get their first token in the step.
        """
        _, requests, k = now.shape
        seconds = self._curves.step(requests + first, requests + prompt_tokens, requests * k)
        allowed = budgets(self.estimator.predict(before), requests + first, seconds)
        return widths(self.estimator.predict(now), allowed)
