"""Differences of counters that know about resets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from outrider.tuning.bounded_types import MAX_COUNT
from outrider.tuning.observe.window import GapReason


class NoWindow(Exception):
    """There is no usable measurement; reason and detail say why."""

    def __init__(self, reason: GapReason, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


def delta(name: str, values: Sequence[float]) -> float:
    """Return the increase from the first to the last value of a counter.

    Raises:
        NoWindow: the counter decreased, or has a value that no counter can have.
    """
    if not all(value <= MAX_COUNT for value in values) or values[0] < 0:
        raise NoWindow(GapReason.CONTRADICTORY, f"{name} is negative, or too large for a counter")
    if any(after < before for before, after in pairwise(values)):
        raise NoWindow(GapReason.COUNTER_RESET, f"{name} went backwards")
    return values[-1] - values[0]
