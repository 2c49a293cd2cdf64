"""The fast loop: the K of the next step from the cost model and from what the last drafts gave. Pure.

The engine asks `FastLoop.choose` before each step and gives every verified step to `FastLoop.count`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from math import exp

from outrider_protocol.cost_model import CostModel

HYSTERESIS = 0.02
"""Relative gain in expected tokens per second from which another K is worth a change."""
MEMORY_DRAFTS = 80.0
"""Drafts after which what they gave counts half."""
LOOK_STEPS = 16
"""One drafted step in so many at K=0."""
PRIOR_DRAFTS = 2.0
PRIOR_ACCEPTANCE = 0.6
UNDRAFTED_KEPT = 0.995
"""Weight that a position keeps per step in which it is not drafted."""
SURVIVAL_SECONDS = 30.0
"""Time constant of `FastLoop.survival`."""


class Reason(StrEnum):
    """Why K is what it is."""

    START = "Start"
    """Nothing was drafted since the cost model came."""
    ACCEPTANCE = "Acceptance"
    """The drafts of late give another K more tokens per second."""
    BATCH = "Batch"
    """Batch size or context moved."""
    COST_MODEL = "CostModel"
    """The operator pushed another cost model, or its limits left no other K."""


class FastLoop:
    """The choice of K for one engine. Not thread-safe; it reads no clock.

    model: a checked cost model.
    k: the K to begin with, such as that of the schedule; the nearest allowed one below counts.
    """

    def __init__(self, model: CostModel, *, k: int) -> None:
        self.k = k
        """K between looks."""
        self.looks = 0
        """Steps at K=0 that drafted, in order to see acceptance."""
        self.changes = 0
        self.reason = Reason.START
        """Of the last change of K."""
        self._positions = max(model.candidates)
        self._tried = [PRIOR_DRAFTS] * self._positions
        self._kept = [PRIOR_DRAFTS * PRIOR_ACCEPTANCE] * self._positions
        self._since_look = 0
        self._seconds = 0.0  # of the step chosen before
        self._survival: list[float] = []
        self.use(model)

    @property
    def model(self) -> CostModel:
        """In use."""
        return self._model

    @property
    def survival(self) -> tuple[float, ...]:
        """Probability by position that a draft token and all before it are accepted.

        A mean over all steps, drafted or not, by their believed time and with the estimate of that step.
        """
        return tuple(self._survival)

    def use(self, model: CostModel) -> None:
        """Take another cost model; what was counted stays."""
        self._model = model
        more = max(model.candidates) - self._positions
        if more > 0:
            self._tried += [0.0] * more
            self._kept += [0.0] * more
            self._positions += more

    def choose(self, batch: int, context_tokens: int, new_requests: int = 0) -> int:  # noqa: ARG002
        """K of the next step, one of the candidates that the limits allow at this batch size.

        batch: requests in the step, at least 1; as the engine's schedule counts them.
        context_tokens: in the KV cache, of all requests in the step.
        new_requests: of the step, those that were in no step before.
        """
        model = self._model
        allowed = model.allowed(batch)
        tokens = self._expected()
        self._remember(tokens)
        gains = {k: tokens[k] / model.seconds(k, batch, context_tokens) for k in allowed}
        best = max(allowed, key=gains.__getitem__)
        if self.k not in gains:
            self._change(best, Reason.COST_MODEL)
        elif gains[best] > gains[self.k] * (1.0 + HYSTERESIS):
            self._change(best, Reason.ACCEPTANCE)
        self._since_look += 1
        if self.k == 0 and len(allowed) > 1 and self._since_look >= LOOK_STEPS:
            self._since_look = 0
            self.looks += 1
            k = allowed[min(2, len(allowed) - 1)]
        else:
            k = self.k
        self._seconds = model.seconds(k, batch, context_tokens)
        return k

    def count(self, k: int, requests: int, accepted: Sequence[int]) -> None:
        """What one step drafted and verified.

        k: that `choose` gave for these drafts.
        requests: that were to get a draft of K tokens, those for which the drafter found none included.
        accepted: by position, requests of which that draft token and all before it were accepted.
        """
        if k == 0 or requests <= 0:
            return
        kept = 0.5 ** (requests / MEMORY_DRAFTS)
        reached = float(requests)
        for place in range(self._positions):
            if place < k:
                got = min(float(accepted[place]) if place < len(accepted) else 0.0, reached)
                self._tried[place] = self._tried[place] * kept + reached
                self._kept[place] = self._kept[place] * kept + got
                reached = got
            else:
                self._tried[place] *= UNDRAFTED_KEPT
                self._kept[place] *= UNDRAFTED_KEPT

    def _expected(self) -> list[float]:
        """Tokens of one request in a step, by K."""
        tokens, survival, before = [1.0], 1.0, PRIOR_ACCEPTANCE
        for tried, kept in zip(self._tried, self._kept, strict=True):
            before = (kept + before) / (tried + 1.0)
            survival *= before
            tokens.append(tokens[-1] + survival)
        return tokens

    def _remember(self, tokens: Sequence[float]) -> None:
        survival = [after - before for before, after in pairwise(tokens)]
        weight = 1.0 - exp(-self._seconds / SURVIVAL_SECONDS)
        old = self._survival + survival[len(self._survival) :]
        self._survival = [was + (now - was) * weight for was, now in zip(old, survival, strict=True)]

    def _change(self, k: int, reason: Reason) -> None:
        if k != self.k:
            self.k, self.reason = k, reason
            self.changes += 1
