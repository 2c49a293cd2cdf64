"""Policies that choose K at each step inside an engine, in place of the schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from outrider_protocol.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Verified:
    """What equal steps of one batch size and one K gave."""

    batch: float  # requests in decode
    k: int
    steps: float
    seconds: float  # of all these steps
    accepted: Sequence[float]  # requests whose draft was accepted up to a position, summed over steps

    @property
    def rates(self) -> list[float]:
        """Ratio of requests whose draft was accepted up to each position."""
        return [count / (self.batch * self.steps) for count in self.accepted]


class StepRule(Protocol):
    """One policy in one engine."""

    def choose(self, batch: int) -> int:
        """K of the next step."""
        ...

    def verified(self, done: Verified) -> None:
        """Learn from steps that ran."""
        ...

    def schedule(self) -> Schedule:
        """K in force by batch size, for an engine that only takes schedules."""
        ...


MakeRule = Callable[[], StepRule]
"""A fresh policy for one engine."""
