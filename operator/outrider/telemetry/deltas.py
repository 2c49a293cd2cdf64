"""Differences of counters that know about resets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

from outrider.tuning.window import GapReason


class NoWindow(Exception):
    """There is no usable measurement, and why."""

    def __init__(self, reason: GapReason, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


def delta(name: str, values: Sequence[float]) -> float:
    """From the first to the last value of a counter.

    Raises:
        NoWindow: it went backwards, or holds what no counter can hold.
    """
    if values[0] < 0 or not all(map(isfinite, values)):
        raise NoWindow(GapReason.CONTRADICTORY, f"{name} is negative or not finite")
    if any(after < before for before, after in pairwise(values)):
        raise NoWindow(GapReason.COUNTER_RESET, f"{name} went backwards")
    return values[-1] - values[0]
