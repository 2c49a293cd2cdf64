"""What chooses K in a simulated engine: the real fast loop, which sees drafts one step late, or a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outrider_lab.engines.step_rules import MakeRule, StepRule, Verified
from outrider_protocol.cost_model import CostModel
from outrider_protocol.fast_loop import FastLoop
from outrider_protocol.schedule import Schedule

BLOCK_STEPS = 8
"""Steps of one K whose drafts an engine of many requests counts together, so that a run takes seconds."""
BLOCK_STEPS_OFF = 64
"""The same at K=0, where nothing is counted until the next look."""


@dataclass(frozen=True, slots=True)
class Done:
    """Steps of one K. accepted: requests whose draft was accepted up to each position, summed over steps."""

    seconds: float
    accepted: Sequence[float]


@dataclass(slots=True)
class Ran:
    """All steps of one K in a piece of time."""

    steps: int
    seconds: float
    accepted: list[float]

    def add(self, steps: int, done: Done) -> None:
        """Count more steps."""
        self.steps += steps
        self.seconds += done.seconds
        self.accepted = [a + b for a, b in zip(self.accepted, done.accepted, strict=True)]


class InEngine:
    """The fast loop or the rule of one pod, and what the loop has not counted yet."""

    def __init__(self) -> None:
        self._loop: FastLoop | None = None
        self._rule: StepRule | None = None
        self._model: CostModel | None = None
        self._schedule: Schedule | None = None
        self._late: tuple[int, int, Sequence[float], int] | None = None  # K, requests, accepted, steps
        self._next: tuple[int, int] | None = None

    def launch(self, step_rule: MakeRule | None) -> None:
        """Have a rule choose K in this engine, in place of the fast loop."""
        self._rule = None if step_rule is None else step_rule()

    def taught(self, cost_model: CostModel | None, schedule: Schedule) -> InEngine | None:
        """Take the cost model of a push. The same object, or None where the schedule runs."""
        if self._rule is not None:
            return self
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
        if self._rule is not None:
            return self._rule.choose(batch)
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
        if self._rule is not None:
            return 1
        if self._loop is None:
            return most
        most = min(most, BLOCK_STEPS if k else BLOCK_STEPS_OFF)
        for steps in range(1, most):
            other = self._loop.choose(batch, int(context))
            if other != k:
                self._next = (other, batch)
                return steps
        return most

    def gave(self, k: int, batch: int, steps: int, done: Done) -> None:
        """Count steps. The fast loop counts the drafts of a step after it chose the next one."""
        if self._rule is not None:
            if batch > 0:
                self._rule.verified(Verified(batch, k, steps, done.seconds, done.accepted))
            return
        if self._loop is not None and self._late is not None:
            drafted, requests, accepted, counted = self._late
            self._loop.count(drafted, requests, accepted, steps=counted)
        self._late = (k, steps * batch, done.accepted, steps)

    def fill(
        self,
        seconds: float,
        batch: int,
        context: int,
        seconds_of: Callable[[int], float],
        run: Callable[[int, int], Done],
        *,
        block: int,
    ) -> dict[int, Ran]:
        """Run steps of one batch size that fill a time; return them by K.

        seconds_of: a step with some K that verifies all drafts. run: some steps with some K.
        block: steps that may be counted together.
        """
        ran: dict[int, Ran] = {}
        left = seconds
        while True:
            k = self.choose(batch, context)
            assert k is not None
            each = seconds_of(k)
            steps = 1 if block == 1 else self.alike(k, batch, context, min(block, max(1, round(left / each))))
            done = run(k, steps)
            self.gave(k, batch, steps, done)
            ran.setdefault(k, Ran(0, 0.0, [0.0] * k)).add(steps, done)
            left -= done.seconds
            if left < 0.5 * each:
                return ran
