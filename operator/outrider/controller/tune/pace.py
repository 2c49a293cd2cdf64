"""How often a model is measured, where there are very many pods. Pure.

A tick measures each pod of a model and decides about it. Step times and acceptance of a settled model change
slowly. So with more pods than a tick measures in time, settled models take turns. All others are measured at
each tick.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from zlib import crc32

from outrider.api.reasons import DecisionReason
from outrider.controller.fleet import TunedModel
from outrider.controller.tune.outcome import TickOutcome
from outrider.tuning.decision import Kind
from outrider.tuning.observe.window import Observation, Window

_MOST_TICKS = 4
"""With ticks of 10 s a settled model is measured every 40 s. Demand for autoscalers is dropped after 60 s."""
_SAME_LOAD = 1.5
"""Ratio of two mean batch sizes up to which the load counts as the same."""


def ticks_between(pods: int, at_once: float) -> int:
    """Ticks from one measurement of a settled model to the next, with so many pods of all models.

    at_once: pods that a tick measures in time.
    """
    return min(_MOST_TICKS, max(1, ceil(pods / at_once)))


@dataclass(frozen=True, slots=True)
class Pace:
    """Whether a model is settled by its last tick. batch_size: mean of that tick; None if not measured."""

    settled: bool = False
    batch_size: float | None = None

    def after(self, outcome: TickOutcome) -> Pace:
        """The pace after one more tick."""
        decision = outcome.decision
        outlook = None if decision is None else decision.outlook
        now = None if outlook is None else outlook.batch_size
        return Pace(_rests(outcome) and _is_near(self.batch_size, now), now)

    def turns(self, uid: str, *, tick: int, between: int) -> bool:
        """Whether the model is measured at this tick. Each model has its own turn.

        tick: number of the tick. between: see `ticks_between`.
        """
        return not self.settled or (tick + crc32(uid.encode())) % between == 0


def differs(before: TunedModel, now: TunedModel) -> bool:
    """Whether anything changed that a model is measured for, beside its status."""

    def facts(model: TunedModel) -> tuple[object, ...]:
        launch = (model.stored_order, model.trial)
        return model.generation, model.instructions, model.pods, model.starting_pods, *launch

    return facts(before) != facts(now)


def _rests(outcome: TickOutcome) -> bool:
    """Whether the tuner keeps its schedule, by measurements of each pod and without an experiment."""
    model, decision, push = outcome.model, outcome.decision, outcome.actuated.push
    if decision is None or (decision.kind, decision.reason) != (Kind.HOLD, DecisionReason.SETTLED):
        return False
    experiments = (decision.probe, outcome.reset, model.trial, model.stored_order.canary)
    if any(each is not None for each in experiments) or any(pod.canary for pod in model.pods):
        return False
    if push is None or push.failed or model.starting_pods or model.targets:
        return False
    seen = outcome.observed.observations
    return len(seen) == len(model.pods) and all(map(_is_served, seen))


def _is_served(seen: Observation) -> bool:
    """Whether a pod was measured, and no request waits in it, so that it needs no other replica."""
    return isinstance(seen, Window) and (seen.requests_waiting or 0.0) < 1.0


def _is_near(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return False
    return max(before, now) <= _SAME_LOAD * min(before, now)
