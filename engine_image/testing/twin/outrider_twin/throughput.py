"""Step time from measured throughputs: tokens per second by batch size and K."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

from outrider_twin.step_time import Load

SINGLE_ROW_SLOPE = 0.5
"""Slope of log goodput over log batch size for a table of one row, between memory bound (1) and compute bound
(0)."""


@dataclass(frozen=True)
class Throughput:
    """Step times from a table of goodputs, by the tokens that a step emits.

    Between two rows log goodput is linear in log batch size. Beyond the first and the last row it follows the
    mean slope of the two nearest rows. That slope is limited to 0 (compute bound) to 1 (memory bound).
    Between two K, and beyond the last, the step time is linear in K.

    gains: tokens that a request emits per step, by column, as in the measurement.
    prompt_token_seconds: additional seconds of a step per prompt token, which throughputs do not contain.
    """

    batch_sizes: tuple[int, ...]  # rising
    candidates: tuple[int, ...]  # K, rising
    rows: tuple[tuple[float, ...], ...]  # tokens per second, one row per batch size
    gains: tuple[float, ...]
    prompt_token_seconds: float

    def seconds(self, load: Load) -> float:
        """See `Timing`. A step that only computes prompts also has the time of one request."""
        batch = max(1, load.decoding)
        return self._decode(batch, load.k) + self.prompt_token_seconds * load.prompt_tokens

    def goodput(self, batch: int, column: int) -> float:
        """Tokens per second of a batch, by the place of K among the candidates."""
        sizes, found = self.batch_sizes, [row[column] for row in self.rows]
        if batch <= sizes[0]:
            return float(found[0] * (batch / sizes[0]) ** self._slope(0))
        if batch >= sizes[-1]:
            return float(found[-1] * (batch / sizes[-1]) ** self._slope(len(sizes) - 2))
        upper = bisect_left(sizes, batch)
        low, high = sizes[upper - 1], sizes[upper]
        share = log(batch / low) / log(high / low)
        return exp((1 - share) * log(found[upper - 1]) + share * log(found[upper]))

    def _decode(self, batch: int, k: int) -> float:
        ks = self.candidates
        if len(ks) == 1 or k <= ks[0]:
            return self._column(batch, 0)
        upper = min(bisect_left(ks, k), len(ks) - 1)
        before, after = self._column(batch, upper - 1), self._column(batch, upper)
        if k > ks[-1]:
            # A falling line would reach 0.
            return after + max(0.0, after - before) * (k - ks[-1]) / (ks[-1] - ks[-2])
        return before + (after - before) * (k - ks[upper - 1]) / (ks[upper] - ks[upper - 1])

    def _column(self, batch: int, column: int) -> float:
        return batch * self.gains[column] / self.goodput(batch, column)

    def _slope(self, lower: int) -> float:
        """Mean over K of d log goodput / d log batch size, from row ``lower`` to the next."""
        if len(self.rows) < 2:
            return SINGLE_ROW_SLOPE
        rise = _mean([log(b / a) for a, b in zip(self.rows[lower], self.rows[lower + 1], strict=True)])
        return min(1.0, max(0.0, rise / log(self.batch_sizes[lower + 1] / self.batch_sizes[lower])))


def survival_from(candidates: Sequence[int], accepted: Sequence[float | None]) -> tuple[float, ...] | None:
    """Survival: the ratio of drafts with an accepted position j, from the mean accepted tokens by K.

    Linear between known K. None without a known K above 0.
    """
    known = [(k, value) for k, value in zip(candidates, accepted, strict=True) if k and value is not None]
    if not known:
        return None
    points = [(0, 0.0), *sorted(known)]
    shares: list[float] = []
    for (k, low), (above, high) in pairwise(points):
        shares += [max(0.0, (high - low) / (above - k))] * (above - k)
    survival, least = [], 1.0
    for share in shares:
        least = min(least, share)
        survival.append(least)
    return tuple(survival)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
