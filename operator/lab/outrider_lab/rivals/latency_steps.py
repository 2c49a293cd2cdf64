"""`latency-steps`: one K down where the measured latency is over the limit, one up where it is well below."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from outrider.tuning.observe.latencies import pooled
from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider_lab.rivals.tuners import ScheduleRule
from outrider_protocol.schedule import Schedule

_ROOM = 0.8
"""Ratio of the limit below which a longer draft is tried."""


class LatencySteps(ScheduleRule):
    """What an autoscaler would do: it looks at the histogram alone, and has one K for all batch sizes.

    Without a limit it goes up to the largest K and stays.
    """

    def __init__(self, policy: Policy) -> None:
        """From K=0."""
        self._candidates = policy.candidates
        self._limit = policy.safety.inter_token_latency_limit
        self._quantile = policy.safety.inter_token_latency_quantile
        self._at = 0
        self.schedule = Schedule.constant(self._candidates[0])

    def follow(self, seen: Sequence[Window], now: float) -> None:  # noqa: ARG002
        """One step down or up."""
        histogram = pooled(window.latencies for window in seen)
        found = None if histogram is None else histogram.quantile(self._quantile)
        if found is not None:
            self._at = min(max(self._at + self._move(exp(found[1])), 0), len(self._candidates) - 1)
            self.schedule = Schedule.constant(self._candidates[self._at])

    def _move(self, seconds: float) -> int:
        """By the upper edge of the bucket, since it may be that long."""
        if self._limit is None or seconds < _ROOM * self._limit:
            return 1
        return -1 if seconds > self._limit else 0
