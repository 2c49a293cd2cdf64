"""When each step is due, and how far the real end of steps fell behind.

While there is work, a step is due its own time after the previous step was due. So the scheduler's work hides
inside the step, as in times that were measured on an engine. After idle time a step begins at its request.
The next steps compensate a delay up to ``slack``. A longer delay is lost, since a burst of steps would be
worse than a pause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict


class Report(TypedDict):
    """Times in seconds, since the engine started; see `Lateness`."""

    engine: str
    asynchronous: bool
    steps: int
    scheduled: float
    lost: float
    latest: float
    ratio: float
    time_factor: float


def report(name: str, lateness: Lateness, *, time_factor: float, asynchronous: bool) -> Report:
    """name: of the description. asynchronous: whether vLLM schedules ahead of the results."""
    return Report(
        engine=name,
        asynchronous=asynchronous,
        steps=lateness.steps,
        scheduled=lateness.scheduled,
        lost=lateness.lost,
        latest=lateness.latest,
        ratio=lateness.ratio,
        time_factor=time_factor,
    )


@dataclass(frozen=True, slots=True)
class Lateness:
    """Delays since the engine started, in seconds.

    scheduled: time of all steps by the table. lost: additional time of the steps, without pauses.
    latest: maximum delay of a single step.
    """

    steps: int
    scheduled: float
    lost: float
    latest: float

    @property
    def ratio(self) -> float:
        """Lost over scheduled time: the relative slowdown against the table."""
        return self.lost / self.scheduled if self.scheduled else 0.0


class Pace:
    """The deadlines of one engine. Times are those of one monotonic clock, in seconds."""

    def __init__(self, *, slack: float) -> None:
        self._slack = slack
        self._due = 0.0
        self._late = 0.0
        self._steps, self._scheduled, self._lost, self._latest = 0, 0.0, 0.0, 0.0

    @property
    def steps(self) -> int:
        """Number of steps that began."""
        return self._steps

    def begin(self, seconds: float, now: float, *, busy: bool) -> float:
        """Moment at which a step is due that is requested at ``now``.

        busy: whether there was work since the previous step.
        """
        start = self._start(now, busy=busy)
        self._steps += 1
        self._scheduled += seconds
        self._due = start + seconds
        return self._due

    def ended(self, due: float, now: float) -> None:
        """Record the real end of a step."""
        self._late = max(0.0, now - due)
        self._latest = max(self._latest, self._late)

    def lateness(self) -> Lateness:
        """The sums so far."""
        return Lateness(self._steps, self._scheduled, self._lost, self._latest)

    def _start(self, now: float, *, busy: bool) -> float:
        if not busy:
            # No step follows that could compensate the delay of the last one before a pause.
            self._lost += self._late
            self._late = 0.0
            return max(now, self._due)
        behind = now - self._due
        if behind < self._slack:
            return self._due
        self._lost += behind
        return now
