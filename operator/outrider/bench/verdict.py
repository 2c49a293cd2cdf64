"""How sure a difference between arms is: ratios of slices of the same round, with Student's interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from outrider.bench.arms import AS_IT_IS, NO_DRAFTS, Arm

FEWEST_ROUNDS = 2

_T_95 = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228}
_T_95 |= {12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042, 60: 2.000, 120: 1.980}
"""Two-sided quantiles of Student's distribution by degrees of freedom."""


class Verdict(StrEnum):
    """What speculation as it is is worth."""

    PAYS = "Pays"
    COSTS = "Costs"
    UNSURE = "Unsure"
    """The interval holds no difference."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its 95 % interval."""

    value: float
    low: float
    high: float


def mean(values: Sequence[float]) -> Interval:
    """Of at least `FEWEST_ROUNDS` values."""
    centre = statistics.fmean(values)
    margin = _student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(centre, centre - margin, centre + margin)


def mean_amount(values: Sequence[float]) -> Interval:
    """The same of what is never below 0, such as a rate or a duration; so its interval is not either."""
    found = mean(values)
    return replace(found, low=max(0.0, found.low))


def ratio(over: Sequence[float], under: Sequence[float]) -> Interval:
    """Of two arms, in their geometric mean. Values of one round stand at the same place; all above 0."""
    return geometric([above / below for above, below in zip(over, under, strict=True)])


def geometric(values: Sequence[float]) -> Interval:
    """Geometric mean of values above 0, for what is compared by ratios; its interval stays above 0."""
    found = mean([math.log(value) for value in values])
    return Interval(math.exp(found.value), math.exp(found.low), math.exp(found.high))


def verdict(gain: Interval) -> Verdict:
    """gain: ratio to K=0."""
    if gain.low > 1:
        return Verdict.PAYS
    return Verdict.COSTS if gain.high < 1 else Verdict.UNSURE


def gains(rates: Mapping[Arm, Sequence[float]]) -> dict[Arm, Interval]:
    """Of every arm over no drafts. rates: tokens per second by round."""
    return {arm: ratio(values, rates[NO_DRAFTS]) for arm, values in rates.items() if arm != NO_DRAFTS}


def against_best(rates: Mapping[Arm, Sequence[float]]) -> tuple[Arm, Interval] | None:
    """The best held K, and as it is over that. None: no K was held.

    The best of several that are alike was also the luckiest, so this leans against what is as it is.
    """
    held = [arm for arm in rates if arm != AS_IT_IS]
    if len(held) < 2:
        return None
    best = max(held, key=lambda arm: statistics.fmean(rates[arm]))
    return best, ratio(rates[AS_IT_IS], rates[best])


def _student(freedom: int) -> float:
    """For the nearest smaller number of degrees, so that no interval is too narrow."""
    return _T_95[max(known for known in _T_95 if known <= freedom)]
