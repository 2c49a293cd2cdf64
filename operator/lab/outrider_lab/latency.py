"""Times between two outputs of a request: as vLLM's histogram has them, and as they were."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from math import exp, floor, log

from outrider.tuning.observe.latencies import Latencies

EDGES = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5),
    *(0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
"""Seconds, upper edges. Source: vLLM 0.32, vllm/v1/metrics/buckets.py, INTER_TOKEN_LATENCY_BUCKETS."""

_PER_UNIT = 50.0
"""Bins of the true gaps for each unit of the logarithm: 2 % wide."""

Gaps = Mapping[int, float]
"""Request-steps by bin of their length."""


def gap_bin(seconds: float) -> int:
    """The bin of one gap."""
    return floor(_PER_UNIT * log(seconds))


def histogram(before: Gaps, after: Gaps, edges: Sequence[float]) -> Latencies:
    """What an engine's histogram gained, by upper edges in seconds."""
    counts = [0.0] * (len(edges) + 1)
    for index, count in after.items():
        counts[bisect_left(edges, exp((index + 0.5) / _PER_UNIT))] += count - before.get(index, 0.0)
    return Latencies(tuple(edges), tuple(counts))


def quantile(gaps: Iterable[Gaps], share: float) -> float | None:
    """Return the seconds that are this quantile of all gaps, within a hundredth; None without gaps."""
    total: dict[int, float] = {}
    for each in gaps:
        for index, count in each.items():
            total[index] = total.get(index, 0.0) + count
    left = share * sum(total.values())
    for index in sorted(total):
        left -= total[index]
        if left <= 0:
            return exp((index + 0.5) / _PER_UNIT)
    return None
