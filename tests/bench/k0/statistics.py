"""Ratios of pairs, with an interval."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

RESAMPLES = 10_000


def relative_cost(
    slower: Sequence[float], faster: Sequence[float], *, starts: int = 1, seed: int = 0
) -> dict[str, object]:
    """By how much the first take longer than the second, pair by pair, in percent.

    starts: so many groups of pairs, one after the other, are each of processes of their own, which are
        quicker or slower than their like for as long as they live. The interval of 95 % is that of the median
        of resampled pairs of resampled groups.
    """
    ratios = [one / other - 1 for one, other in zip(slower, faster, strict=True)]
    size = len(ratios) // starts
    groups = [ratios[begin : begin + size] for begin in range(0, size * starts, size)]
    draws = random.Random(seed)

    def again() -> float:
        chosen = draws.choices(groups, k=starts)
        return statistics.median([ratio for group in chosen for ratio in draws.choices(group, k=size)])

    medians = sorted(again() for _ in range(RESAMPLES))
    return {
        "pairs": len(ratios),
        "starts": starts,
        "median_percent": percent(statistics.median(ratios)),
        "interval_95_percent": [percent(medians[int(share * RESAMPLES)]) for share in (0.025, 0.975)],
        "spread_percent": percent(statistics.stdev(ratios)) if len(ratios) > 1 else None,
        "ratios_percent": [percent(ratio) for ratio in ratios],
    }


def percent(share: float) -> float:
    """Two digits: the pairs are not better than that."""
    return round(100 * share, 2)
