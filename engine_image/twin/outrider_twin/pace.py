"""When each step is due, and how far the real end of steps fell behind.

Deadlines are chained: while there is work, a step is due its own time after the one before it was due, so
what the scheduler does meanwhile hides inside the step, as it does in times that were measured on an
engine. After idle time a step begins when it is asked for. A delay up to ``slack`` is made up for by the
next steps; a longer one is lost, since steps in a burst would be worse than a pause.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lateness:
    """Since the engine started. All in seconds.

    scheduled: of all steps, by the table. lost: by so much longer they took, pauses without work aside.
    latest: by so much a single step was late at most.
    """

    steps: int
    scheduled: float
    lost: float
    latest: float

    @property
    def ratio(self) -> float:
        """Lost over scheduled time: by so much the engine was slower than its table."""
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
        """How many were begun."""
        return self._steps

    def begin(self, seconds: float, now: float, *, busy: bool) -> float:
        """When a step is due that is asked for now.

        busy: whether there was work ever since the step before.
        """
        start = self._start(now, busy=busy)
        self._steps += 1
        self._scheduled += seconds
        self._due = start + seconds
        return self._due

    def ended(self, due: float, now: float) -> None:
        """A step has really ended."""
        self._late = max(0.0, now - due)
        self._latest = max(self._latest, self._late)

    def lateness(self) -> Lateness:
        """The sums so far."""
        return Lateness(self._steps, self._scheduled, self._lost, self._latest)

    def _start(self, now: float, *, busy: bool) -> float:
        if not busy:
            # The last step before the pause has nothing after it to make up for its delay.
            self._lost += self._late
            self._late = 0.0
            return max(now, self._due)
        behind = now - self._due
        if behind < self._slack:
            return self._due
        self._lost += behind
        return now
