"""Whether the steps of an engine agree with the cost model that its fast loop uses. Pure.

What all step times share changes no choice of K, so it does not count. The scale of another machine does.
"""

from __future__ import annotations

from math import exp, log

from outrider_protocol.cost_model import CostModel

STEPS_JUDGED = 64
"""From one judgement to the next."""
STEPS_OF_A_K = 50
"""A K with fewer steps is not judged yet."""
JUDGEMENTS = 5
"""Judgements in a row that find a disagreement, until the cost model counts as broken."""
MEMORY_STEPS = 100
"""Steps of a K after which an older one counts 1/e."""
SIGMAS = 3.0
TOLERANCE = 0.15
"""Relative, on top of the errors of the cost model: for batch sizes between its knots."""
MAX_SCALE = 3.0
"""Steps that last so many times what the cost model says, or that part of it, are of another engine."""
MAX_STALL = 4.0
"""A step counts at most that many times the mean: a longer one met something else."""


class Agreement:
    """The steps of one engine against one cost model."""

    def __init__(self, model: CostModel) -> None:
        self.broken: str | None = None
        """Why the cost model is not of this engine; None while it may be."""
        self._model = model
        self._counts = dict.fromkeys(model.candidates, 0)
        # By K, the mean logarithm of measured over modelled seconds, and the mean error of the model there.
        self._means = dict.fromkeys(model.candidates, 0.0)
        self._errors = dict.fromkeys(model.candidates, 0.0)
        self._steps = 0
        self._against = 0

    def add(self, k: int, batch: int, context_tokens: float, seconds: float) -> None:
        """Take one step that drafts and verifies K and reads no prompt.

        batch: requests in the step.
        context_tokens: in the KV cache, of all these requests.
        seconds: engine time.
        """
        if k not in self._counts or seconds <= 0.0:
            return
        self._counts[k] = count = self._counts[k] + 1
        ratio = log(seconds / self._model.seconds(k, batch, context_tokens))
        if count > 1:
            ratio = min(ratio, self._means[k] + log(MAX_STALL))
        part = 1.0 / min(count, MEMORY_STEPS)
        self._means[k] += part * (ratio - self._means[k])
        self._errors[k] += part * (self._model.error(k, batch) - self._errors[k])
        self._steps += 1
        if self._steps % STEPS_JUDGED == 0:
            found = self._disagreement()
            self._against = self._against + 1 if found else 0
            self.broken = self.broken or (found if self._against >= JUDGEMENTS else None)

    def _disagreement(self) -> str | None:
        judged = [k for k, count in self._counts.items() if count >= STEPS_OF_A_K]
        if not judged:
            return None
        scale = sum(self._means[k] for k in judged) / len(judged)
        if abs(scale) > log(MAX_SCALE) + SIGMAS * max(self._errors[k] for k in judged):
            return f"steps last {exp(scale):.2f} times what the cost model says"
        for k in judged:
            apart, allowed = self._means[k] - scale, SIGMAS * self._errors[k] + TOLERANCE
            if abs(apart) > allowed:
                times = f"steps of K={k} last {exp(apart):.2f} times what the cost model says"
                return f"{times}, beside those of other K; its errors allow {allowed:.0%}"
        return None
