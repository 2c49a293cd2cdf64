"""One run: a tuner and a fleet, tick by tick."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.tuning.decision import Speedup
from outrider_lab.engines.fleet import Fleet, Span
from outrider_lab.rivals.tuners import Oracle, Tuner
from outrider_protocol.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Step:
    """The answer of one tick."""

    at: float  # seconds
    schedule: Schedule
    speedup: Speedup | None
    batch_size: float | None  # of the pods at that time; None while all idle
    follows: bool = False  # engines chose K at each step, in place of the schedule


@dataclass(frozen=True)
class Replay:
    """Everything that a run did, for the figures."""

    spans: tuple[Span, ...]
    steps: tuple[Step, ...]
    first_tick: float  # seconds


def replay(fleet: Fleet, tuner: Tuner, *, horizon: float, interval: float, first_tick: float) -> Replay:
    """Ask the tuner every `interval` seconds, and let the fleet work in between.

    first_tick: seconds; draw it between 0 and the interval, so that ticks and phases are out of step.
    """
    extra = tuner.changes_at if isinstance(tuner, Oracle) else ()
    count = int((horizon - first_tick) / interval) + 1
    times = sorted({first_tick + i * interval for i in range(count)} | set(extra) | {horizon})
    fleet.launch(tuner.launch)
    action = tuner.begin()
    spans: list[Span] = []
    steps: list[Step] = []
    for now in times:
        if now <= 0:
            continue
        tick = fleet.advance(now, action.schedule, action.probe, action.cost_model)
        spans += tick.spans
        follows = action.cost_model is not None
        action = tuner.tick(tick.observations, now)
        steps.append(Step(now, action.schedule, action.speedup, tick.batch_size, follows))
    return Replay(tuple(spans), tuple(steps), first_tick)
