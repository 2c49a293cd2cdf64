"""Latency targets of a model, and whether the histograms of its engines keep them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, inf

from outrider.tuning.observe.latencies import Latencies, pooled
from outrider.tuning.observe.window import Window

RECENT_SECONDS = 120.0
"""Time over which a target is judged: short enough for an alert, and ten requests per minute suffice."""
_BEYOND = 2.0
"""Latencies beyond the percentile that a judgement needs: 20 latencies for the 90th percentile."""


@dataclass(frozen=True, slots=True)
class LatencyTarget:
    """A limit that a percentile of a latency must not exceed."""

    percentile: int  # 50 to 99
    limit: float  # seconds

    @property
    def quantile(self) -> float:
        """The percentile as a ratio of all latencies."""
        return self.percentile / 100.0


@dataclass(frozen=True, slots=True)
class LatencyTargets:
    """The targets of a model; false without any."""

    inter_token: LatencyTarget | None = None
    first_token: LatencyTarget | None = None

    def __bool__(self) -> bool:
        return self.inter_token is not None or self.first_token is not None


@dataclass(frozen=True, slots=True)
class MeasuredLatency:
    """A percentile of recent latencies, by the edges of the bucket that it lies in."""

    low: float  # seconds
    high: float  # seconds; inf above all edges
    count: float  # latencies behind it
    kept: bool | None  # None: too few latencies, or the limit lies in the same bucket


def judged(histogram: Latencies | None, target: LatencyTarget) -> MeasuredLatency | None:
    """Compare a histogram with a target; None if there is no histogram.

    With too few latencies the percentile is unknown: its bounds are 0 and inf, and `count` is 0.
    """
    if histogram is None:
        return None
    bounds = histogram.quantile(target.quantile)
    if bounds is None or histogram.total * (1.0 - target.quantile) < _BEYOND - 1e-9:
        return MeasuredLatency(0.0, inf, 0.0, None)
    least, most = histogram.within(target.limit)
    kept = True if least >= target.quantile else False if most < target.quantile else None
    return MeasuredLatency(exp(bounds[0]), exp(bounds[1]), histogram.total, kept)


@dataclass(frozen=True, slots=True)
class _OfTick:
    """The histograms of one tick, over all pods."""

    at: float  # unix seconds
    inter_token: Latencies | None
    first_token: Latencies | None


@dataclass(frozen=True, slots=True)
class RecentLatencies:
    """The histograms of the last `RECENT_SECONDS`."""

    ticks: tuple[_OfTick, ...] = ()

    def after(self, windows: Iterable[Window], now: float) -> RecentLatencies:
        """Add the windows of one tick. now: unix seconds."""
        seen = tuple(windows)
        tick = _OfTick(
            now,
            pooled(window.latencies for window in seen),
            pooled(window.first_token_latencies for window in seen),
        )
        ticks = (*self.ticks, tick) if seen else self.ticks
        return RecentLatencies(tuple(each for each in ticks if 0 <= now - each.at < RECENT_SECONDS))

    @property
    def measured(self) -> bool:
        """Whether any engine was measured."""
        return bool(self.ticks)

    @property
    def inter_token(self) -> Latencies | None:
        """Seconds between two outputs; None without a histogram."""
        return pooled(each.inter_token for each in self.ticks)

    @property
    def first_token(self) -> Latencies | None:
        """Seconds to the first token; None without a histogram."""
        return pooled(each.first_token for each in self.ticks)
