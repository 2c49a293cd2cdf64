"""The fast loop inside a simulated engine: the real one, which sees its drafts one step late."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from outrider_protocol.cost_model import CostModel
from outrider_protocol.fast_loop import FastLoop
from outrider_protocol.schedule import Schedule

BLOCK_STEPS = 8
"""Steps of one K whose drafts an engine of many requests counts together, so that a run takes seconds."""
BLOCK_STEPS_OFF = 64
"""The same at K=0, where nothing is counted until the next look."""


class InEngine:
    """The fast loop of one pod, and what it has not counted yet."""

    def __init__(self) -> None:
        self._loop: FastLoop | None = None
        self._model: CostModel | None = None
        self._schedule: Schedule | None = None
        self._late: tuple[int, int, Sequence[float]] | None = None
        self._next: tuple[int, int] | None = None

    def taught(self, cost_model: CostModel | None, schedule: Schedule) -> InEngine | None:
        """Take the cost model of a push. The same object, or None where the schedule runs."""
        self._model, self._schedule = cost_model, schedule
        if cost_model is None:
            self._loop = self._late = self._next = None
            return None
        if self._loop is not None and cost_model != self._loop.model:
            self._loop.use(cost_model)
        return self

    @property
    def survival(self) -> tuple[float, ...] | None:
        """Estimate of the fast loop, for the operator; None while the schedule runs."""
        return None if self._loop is None else self._loop.survival

    def choose(self, batch: int, context: float, new_requests: int = 0) -> int | None:
        """K of the next step; None while the schedule runs."""
        if self._model is None or self._schedule is None:
            return None
        if self._loop is None:
            self._loop = FastLoop(self._model, k=self._schedule.k_at(batch))
        if self._next is not None:
            k, at, self._next = *self._next, None
            if at == batch and not new_requests:
                return k
        return self._loop.choose(batch, int(context), new_requests)

    def alike(self, k: int, batch: int, context: float, most: int) -> int:
        """How many steps have this K, the one that it was asked for included; at most so many."""
        if self._loop is None:
            return most
        most = min(most, BLOCK_STEPS if k else BLOCK_STEPS_OFF)
        for steps in range(1, most):
            other = self._loop.choose(batch, int(context))
            if other != k:
                self._next = (other, batch)
                return steps
        return most

    def gave(self, k: int, requests: int, accepted: Sequence[float]) -> None:
        """Count the drafts of the step before, now that the next one was chosen."""
        if self._loop is not None and self._late is not None:
            self._loop.count(*self._late)
        self._late = (k, requests, accepted)

    def fill(
        self,
        seconds: float,
        batch: int,
        context: int,
        seconds_of: Callable[[int], float],
        verified: Callable[[int, int], Sequence[float]],
        *,
        block: int,
    ) -> dict[int, tuple[int, list[float]]]:
        """Steps of one batch size that fill a time: by K, how many, and what was accepted by position.

        seconds_of: a step with some K. verified: what some steps with some K accept, by position.
        block: steps that may be counted together.
        """
        ran: dict[int, tuple[int, list[float]]] = {}
        left = seconds
        while True:
            k = self.choose(batch, context)
            assert k is not None
            each = seconds_of(k)
            steps = 1 if block == 1 else self.alike(k, batch, context, min(block, max(1, round(left / each))))
            accepted = verified(k, steps)
            self.gave(k, steps * batch, accepted)
            count, sums = ran.get(k, (0, [0.0] * k))
            ran[k] = count + steps, [a + b for a, b in zip(sums, accepted, strict=True)]
            left -= steps * each
            if left < 0.5 * each:
                return ran
