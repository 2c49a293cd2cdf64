"""One stand-in: it knows what each step says, how long it takes and what goes wrong in it.

The clock is a parameter, and nothing of vLLM is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from outrider_twin.batch import Batch, Step, Texts
from outrider_twin.faults import Kind
from outrider_twin.pace import Pace
from outrider_twin.report import Report, report
from outrider_twin.settings import Behaviour, Settings


@dataclass(frozen=True, slots=True)
class Planned:
    """A step and when it is due. fault: what becomes of it instead."""

    step: Step
    due: float
    fault: Kind | None


class Core:
    """Lives as long as its engine.

    drafts: the largest K of the launch; None without a drafter. pod: the name of this engine among its like.
    now: when the engine starts, in seconds of the clock that all later times are of.
    """

    def __init__(self, settings: Settings, *, drafts: int | None, pod: str, now: float) -> None:
        description = settings.description()
        self._timing = description.timing(drafter=drafts is not None)
        self._drafts = drafts
        self._noise = settings.noise_of(pod)
        self._faults, self._time_factor = settings.faults, settings.time_factor
        self._batch = Batch(Texts(description.curves(), settings.shares(), settings.seed))
        self._pace = Pace(slack=settings.slack_seconds)
        self._began, self._title = now, description.title

    def forget(self, output: Any) -> None:
        """Leave out the requests that have finished by a scheduler's output."""
        self._batch.forget(output)

    def plan(self, output: Any, now: float) -> Planned:
        """The step that the scheduler asks for. Requests that it names as finished are left out first."""
        self._batch.forget(output)
        busy, number = self._batch.busy, self._pace.steps
        step = self._batch.take(output)
        load = step.load.with_k(self._faults.drafted(step.load.k, self._drafts or 0))
        seconds = self._timing.seconds(load) * self._time_factor
        seconds *= self._noise.factor(number, now - self._began)
        fault = self._faults.strikes(step.load, number)
        return Planned(step, self._pace.begin(seconds, now, busy=busy), fault)

    def ended(self, due: float, now: float) -> None:
        """A step's result was handed over."""
        self._pace.ended(due, now)

    def behave(self, behaviour: Behaviour) -> None:
        """Change what is named, from the next step on."""
        self._time_factor = behaviour.time_factor or self._time_factor
        self._faults = behaviour.faults or self._faults

    def report(self, *, asynchronous: bool) -> Report:
        """What it tells of itself; see `report`."""
        lateness = self._pace.lateness()
        return report(self._title, lateness, time_factor=self._time_factor, asynchronous=asynchronous)
