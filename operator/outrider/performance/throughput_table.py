"""An engine known by its throughput: tokens per second by batch size and K."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import exp, log

DEFAULT_ACCEPTANCE = 0.78
"""Acceptance of the first drafted position, if a table has none; the usual range is 0.6 to 0.9."""
ACCEPTANCE_DECAY = 0.95
"""Each later position is accepted this much less often than the one before it."""
SINGLE_ROW_SLOPE = 0.5
"""Slope of log goodput over log batch size for a table with one row: half way between memory bound
(1) and compute bound (0)."""


@dataclass(frozen=True)
class ThroughputTable:
    """Goodput by batch size and K.

    Between two rows log goodput is linear in log batch size. Beyond the first and last row the ratios
    between the K stay as in that row. The level follows the mean slope of the two nearest rows, limited
    to the range from 0 (compute bound) to 1 (memory bound).
    """

    name: str
    batch_sizes: tuple[int, ...]  # rising
    candidates: tuple[int, ...]  # K, rising
    rows: tuple[tuple[float, ...], ...]  # tokens per second, one row per batch size
    unspeculated: tuple[float, ...] | None = None  # of a launch without drafter; None: K=0 stands for it
    accepted: tuple[tuple[float, ...] | None, ...] | None = (
        None  # mean accepted tokens per draft, by row and K
    )
    context_length: float = 0.0  # mean tokens in the cache per request; 0 where unknown
    mixture_of_experts: bool = False
    source: str = ""
    ignored: tuple[str, ...] = ()  # keys of the file that mean nothing here; perhaps misspelt
    _known: dict[tuple[float, int], float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _survivals: dict[tuple[float, int], tuple[float, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def goodput(self, batch_size: float, k: int) -> float:
        """Tokens per second of engine time.

        Raises:
            KeyError: no column for `k`.
        """
        key = (batch_size, k)
        if key not in self._known:
            if k not in self.candidates:
                raise KeyError(f"table {self.name} has no column for K={k}")
            column = self.candidates.index(k)
            self._known[key] = self._at(batch_size, [row[column] for row in self.rows])
        return self._known[key]

    def no_speculation(self, batch_size: float) -> float:
        """Tokens per second of a launch without drafter; K=0 (or the smallest K) where it is unknown."""
        if self.unspeculated is None:
            return self.goodput(batch_size, self.candidates[0])
        key = (batch_size, -1)
        if key not in self._known:
            self._known[key] = self._at(batch_size, self.unspeculated)
        return self._known[key]

    def best(self, batch_size: float) -> int:
        """The K with the highest goodput; the smallest of equals."""
        return max(self.candidates, key=lambda k: (self.goodput(batch_size, k), -k))

    def extrapolates(self, batch_size: float) -> bool:
        """Whether nothing was measured on one side of this batch size."""
        return not self.batch_sizes[0] <= batch_size <= self.batch_sizes[-1]

    def survival(self, batch_size: float, k: int) -> tuple[float, ...]:
        """Return the ratio of drafts whose position j was accepted, one number per position, never rising.

        They come from the accepted tokens of the nearest row, linear between its K. Without these they come
        from `DEFAULT_ACCEPTANCE`, so that windows are consistent.
        """
        key = (batch_size, k)
        if key not in self._survivals:
            self._survivals[key] = self._survival(batch_size, k)
        return self._survivals[key]

    def _survival(self, batch_size: float, k: int) -> tuple[float, ...]:
        row = self._accepted_row(batch_size)
        if row is None:
            conditional = [DEFAULT_ACCEPTANCE * ACCEPTANCE_DECAY**j for j in range(k)]
            return tuple(accumulate(conditional, lambda a, b: a * b))
        totals = [_linear(j, self.candidates, row) for j in range(k + 1)]
        shares = [min(1.0, max(0.0, after - before)) for before, after in pairwise(totals)]
        return tuple(accumulate(shares, min))

    def _accepted_row(self, batch_size: float) -> tuple[float, ...] | None:
        if self.accepted is None:
            return None
        nearest = min(range(len(self.rows)), key=lambda i: abs(log(self.batch_sizes[i] / batch_size)))
        return self.accepted[nearest]

    def _at(self, batch_size: float, column: Sequence[float]) -> float:
        sizes = self.batch_sizes
        if batch_size <= sizes[0]:
            return float(column[0] * (batch_size / sizes[0]) ** self._slope(0))
        if batch_size >= sizes[-1]:
            return float(column[-1] * (batch_size / sizes[-1]) ** self._slope(len(sizes) - 2))
        upper = bisect_left(sizes, batch_size)
        low, high = sizes[upper - 1], sizes[upper]
        if batch_size == high:
            return column[upper]
        share = log(batch_size / low) / log(high / low)
        return exp((1 - share) * log(column[upper - 1]) + share * log(column[upper]))

    def _slope(self, lower: int) -> float:
        """Mean over K of d log goodput / d log batch size, from row `lower` to the next."""
        if len(self.rows) < 2:
            return SINGLE_ROW_SLOPE
        pairs = zip(self.rows[lower], self.rows[lower + 1], strict=True)
        rise = sum(log(after / before) for before, after in pairs) / len(self.candidates)
        return min(1.0, max(0.0, rise / log(self.batch_sizes[lower + 1] / self.batch_sizes[lower])))


def _linear(x: float, xs: Sequence[int], ys: Sequence[float]) -> float:
    """Through the points, and beyond them level; 0 at 0 accepted of 0 drafted."""
    points = [(0, 0.0), *((a, b) for a, b in zip(xs, ys, strict=True) if a > 0)]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]
