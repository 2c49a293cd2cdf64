"""The goodput of one launch against another one, from steps of both on the same traffic.

Pods of the faster launch have smaller batches, since requests end earlier there. So tokens per second of
engine time, compared directly, show too little of the gain. A curve of goodput by batch size corrects this:

    value(rows) = sum of tokens / curve(batch size) over the seconds of the rows

The gain is the log of the ratio of both values. The level of the curve cancels, and only its slope counts.
Each launch has such a curve, and the gain is the mean of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Annotated

from pydantic import Field

from outrider.tuning.bounded_types import Log, Seconds, UnixSeconds, Variance
from outrider.tuning.observe.readings import Reading

_SIGMAS_95 = 2.2
"""Student's t for 95 % and the blocks of a quarter of an hour."""
_BLOCK_SECONDS = 60.0
"""Ticks of one block count as one sample, because texts and load hardly change between two ticks."""
_FEWEST_BLOCKS = 5
_POD_VARIANCE = 0.015**2
"""Least variance between pods of the same launch, in log goodput. A canary is one pod."""
_MAX_BLOCKS = 64


@dataclass(frozen=True, slots=True)
class Contrast:
    """One tick of two launches."""

    gain: float  # log goodput of the other launch over this one, at equal batch sizes
    seconds: float  # engine time of the shorter side
    between_pods: float = 0.0  # variance of log step times between pods of one launch
    revisions: str = ""  # of the compared pods

    def reversed(self) -> Contrast:
        """The same, seen from the other launch."""
        return replace(self, gain=-self.gain)

    def averaged(self, other: Contrast) -> Contrast:
        """The mean of the same tick by the curves of both launches.

        The curve of one launch gives the gain at the batch size of the other. A launch that gains more in
        larger batches would look better beside slow replicas than beside fast ones.
        """
        return replace(self, gain=(self.gain + other.gain) / 2)


def contrast(
    ours: Sequence[Reading], theirs: Sequence[Reading], curve: Mapping[float, float], *, between_pods: float
) -> Contrast:
    """Compare readings of one tick. Neither side is empty.

    curve: goodput of one of the launches, by the batch size of each reading.
    """
    gain = log(_value(theirs, curve)) - log(_value(ours, curve))
    seconds = min(sum(row.seconds for row in rows) for rows in (ours, theirs))
    return Contrast(min(max(gain, -5.0), 5.0), seconds, between_pods)


def _value(rows: Sequence[Reading], curve: Mapping[float, float]) -> float:
    worth = sum(row.tokens / curve[row.batch_size] for row in rows)
    return max(worth, 1e-12) / sum(row.seconds for row in rows)


@dataclass(frozen=True, slots=True)
class Interval:
    """A log gain with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Contrasts:
    """All ticks of one comparison, in blocks."""

    blocks: Annotated[tuple[tuple[Seconds, Log], ...], Field(max_length=_MAX_BLOCKS)] = ()
    open_until: UnixSeconds | None = None  # end of the last block
    between_pods: Variance = 0.0

    def after(self, seen: Contrast, now: float) -> Contrasts:
        """One more tick."""
        if seen.seconds <= 0:
            return self
        new = (seen.seconds, seen.gain)
        if self.blocks and self.open_until is not None and now < self.open_until:
            seconds, gain = self.blocks[-1]
            total = seconds + seen.seconds
            merged = (total, (gain * seconds + seen.gain * seen.seconds) / total)
            return replace(self, blocks=(*self.blocks[:-1], merged), between_pods=seen.between_pods)
        kept = self.blocks[-_MAX_BLOCKS + 1 :]
        return Contrasts((*kept, new), now + _BLOCK_SECONDS, seen.between_pods)

    def interval(self) -> Interval | None:
        """The mean over blocks, weighted by engine time; None with too few blocks."""
        if len(self.blocks) < _FEWEST_BLOCKS:
            return None
        total = sum(seconds for seconds, _ in self.blocks)
        mean = sum(seconds * gain for seconds, gain in self.blocks) / total
        spread = sum((seconds * (gain - mean)) ** 2 for seconds, gain in self.blocks) / total**2
        n = len(self.blocks)
        error = sqrt(spread * n / (n - 1) + max(self.between_pods, _POD_VARIANCE))
        return Interval(mean, mean - _SIGMAS_95 * error, mean + _SIGMAS_95 * error)
