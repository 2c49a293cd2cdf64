"""One simulated engine: the text, the time and the faults of each step.

The clock is a parameter, and the module imports nothing of vLLM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from outrider_twin.batch import Batch, Step, Texts
from outrider_twin.faults import Kind
from outrider_twin.pace import Pace, Report, report
from outrider_twin.settings import Behaviour, Settings


@dataclass(frozen=True, slots=True)
class Planned:
    """A step and the moment when it is due. fault: replaces the step."""

    step: Step
    due: float
    fault: Kind | None


class Core:
    """Lives as long as its engine.

    drafts: the maximum K of the launch; None without a drafter. pod: the name of this engine's pod.
    now: start of the engine, in seconds of the clock of all later times.
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
        """Drop the finished requests of a scheduler's output."""
        self._batch.forget(output)

    def plan(self, output: Any, now: float) -> Planned:
        """The requested step, after the finished requests are dropped."""
        self._batch.forget(output)
        busy, number = self._batch.busy, self._pace.steps
        step = self._batch.take(output)
        load = step.load.with_k(self._faults.drafted(step.load.k, self._drafts or 0))
        seconds = self._timing.seconds(load) * self._time_factor
        seconds *= self._noise.factor(number, now - self._began)
        fault = self._faults.strikes(step.load, number)
        return Planned(step, self._pace.begin(seconds, now, busy=busy), fault)

    def ended(self, due: float, now: float) -> None:
        """Record that the result of a step was delivered."""
        self._pace.ended(due, now)

    def behave(self, behaviour: Behaviour) -> None:
        """Change the given settings, from the next step on."""
        self._time_factor = behaviour.time_factor or self._time_factor
        self._faults = behaviour.faults or self._faults

    def report(self, *, asynchronous: bool) -> Report:
        """The report of this engine; see `report`."""
        lateness = self._pace.lateness()
        return report(self._title, lateness, time_factor=self._time_factor, asynchronous=asynchronous)
