"""Step time from measured throughputs: tokens per second by batch size and K."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

from outrider_twin.load import Load

SINGLE_ROW_SLOPE = 0.5
"""Of log goodput over log batch size where a table has one row: half way between memory bound (1)
and compute bound (0)."""


@dataclass(frozen=True)
class Throughput:
    """A table of goodputs, turned into step times by the tokens that a step emits.

    Between two rows log goodput is linear in log batch size. Beyond the first and the last row the level
    follows the mean slope of the two nearest rows, held between 0 (compute bound) and 1 (memory bound).
    Between two K the step time is linear in K, and goes on so beyond the last.

    gains: tokens that a request emits per step, by column; what the table was measured with.
    prompt_token_seconds: by so much each prompt token prolongs a step; throughputs do not tell it.
    """

    batch_sizes: tuple[int, ...]  # rising
    candidates: tuple[int, ...]  # K, rising
    rows: tuple[tuple[float, ...], ...]  # tokens per second, one row per batch size
    gains: tuple[float, ...]
    prompt_token_seconds: float

    def seconds(self, load: Load) -> float:
        """See `Timing`. A step that only computes prompts takes the base of one request besides."""
        batch = max(1, load.decoding)
        return self._decode(batch, load.k) + self.prompt_token_seconds * load.prompt_tokens

    def goodput(self, batch: int, column: int) -> float:
        """Tokens per second of so many requests, by the place of K among the candidates."""
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
            # A line that falls would reach 0.
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
    """Share of drafts of which position j was accepted, from the mean number of accepted tokens by K.

    Linear between the K that are known. None where nothing above K=0 is.
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
