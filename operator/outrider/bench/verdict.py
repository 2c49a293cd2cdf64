"""The difference between arms: ratios of measurements of the same round, with Student's interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from outrider.bench.arms import AS_IT_IS, NO_DRAFTS, Arm

MIN_ROUNDS = 2

_T_95 = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228}
_T_95 |= {12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042, 60: 2.000, 120: 1.980}
"""Two-sided quantiles of Student's distribution by degrees of freedom."""


class Verdict(StrEnum):
    """The verdict on speculation as it is."""

    PAYS = "Pays"
    COSTS = "Costs"
    UNSURE = "Unsure"
    """The interval contains no difference."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its 95 % interval."""

    value: float
    low: float
    high: float


def mean(values: Sequence[float]) -> Interval:
    """The mean of at least `MIN_ROUNDS` values, with its interval."""
    centre = statistics.fmean(values)
    margin = _student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(centre, centre - margin, centre + margin)


def mean_amount(values: Sequence[float]) -> Interval:
    """The mean of values that are never below 0, with an interval that is not either."""
    found = mean(values)
    return replace(found, low=max(0.0, found.low))


def ratio(over: Sequence[float], under: Sequence[float]) -> Interval:
    """The geometric mean of ratios between two arms, with its interval. The index of a value is its round."""
    return geometric([above / below for above, below in zip(over, under, strict=True)])


def geometric(values: Sequence[float]) -> Interval:
    """The geometric mean of values above 0, with an interval that stays above 0."""
    found = mean([math.log(value) for value in values])
    return Interval(math.exp(found.value), math.exp(found.low), math.exp(found.high))


def verdict(gain: Interval) -> Verdict:
    """The verdict on a gain, the ratio to K=0."""
    if gain.low > 1:
        return Verdict.PAYS
    return Verdict.COSTS if gain.high < 1 else Verdict.UNSURE


def gains(rates: Mapping[Arm, Sequence[float]]) -> dict[Arm, Interval]:
    """The gain of every other arm over K=0. rates: tokens per second by round."""
    return {arm: ratio(values, rates[NO_DRAFTS]) for arm, values in rates.items() if arm != NO_DRAFTS}


def against_best(rates: Mapping[Arm, Sequence[float]]) -> tuple[Arm, Interval] | None:
    """The best single K, and the ratio of "as it is" to it. None: no single K was measured.

    The best of several similar arms is also the luckiest, so this comparison favours the single K.
    """
    held = [arm for arm in rates if arm != AS_IT_IS]
    if len(held) < 2:
        return None
    best = max(held, key=lambda arm: statistics.fmean(rates[arm]))
    return best, ratio(rates[AS_IT_IS], rates[best])


def _student(freedom: int) -> float:
    """The quantile for the next smaller number of degrees of freedom, so that no interval is too narrow."""
    return _T_95[max(known for known in _T_95 if known <= freedom)]
