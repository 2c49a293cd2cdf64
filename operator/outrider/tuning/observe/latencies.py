"""Histograms of latencies, as an engine counts them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from math import inf, log
from operator import add


@dataclass(frozen=True, slots=True)
class Latencies:
    """Number of latencies between neighbouring edges.

    vLLM counts one gap for each request and step, for any number of tokens: the time since the request's
    previous output (`vllm:inter_token_latency_seconds`). So a gap is a step time, and not a time per token.
    It counts the time to the first token once for each request.
    """

    edges: tuple[float, ...]  # seconds, upper ones, rising
    counts: tuple[float, ...]  # one more than edges: the last is for latencies above all edges

    @property
    def total(self) -> float:
        """Number of latencies."""
        return sum(self.counts)

    def times(self, weight: float) -> Latencies:
        """Return the histogram with every count multiplied."""
        return Latencies(self.edges, tuple(weight * count for count in self.counts))

    def within(self, limit: float) -> tuple[float, float]:
        """Return bounds of the ratio of latencies that do not exceed a limit. limit: seconds.

        They differ if the limit lies between two edges. Without latencies both are 1.
        """
        total = self.total
        if total <= 0:
            return 1.0, 1.0
        edges = (*self.edges, inf)
        low = sum(count for edge, count in zip(edges, self.counts, strict=True) if edge <= limit)
        high = sum(count for edge, count in zip((0.0, *self.edges), self.counts, strict=True) if edge < limit)
        return low / total, high / total

    def plus(self, other: Latencies) -> Latencies:
        """Add another histogram with the same edges."""
        return Latencies(self.edges, tuple(map(add, self.counts, other.counts)))

    def quantile(self, share: float) -> tuple[float, float] | None:
        """Return logs of the two edges around this quantile of the latencies; None without any.

        The distribution between two edges is unknown: steps of one batch size are nearly equal.
        """
        total = self.total
        if total <= 0:
            return None
        row = sum(below < share * total for below in accumulate(self.counts[:-1]))
        at = (-inf, *map(log, self.edges), inf)
        return at[row], at[row + 1]


def pooled(parts: Iterable[Latencies | None]) -> Latencies | None:
    """Add the histograms of all pods; None if there is none, or if their edges differ."""
    known = [part for part in parts if part is not None]
    if not known or any(part.edges != known[0].edges for part in known):
        return None
    total = known[0]
    for part in known[1:]:
        total = total.plus(part)
    return total
