"""Ratios of pairs, with an interval."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

RESAMPLES = 10_000


def relative_cost(slower: Sequence[float], faster: Sequence[float], *, seed: int = 0) -> dict[str, object]:
    """By how much the first take longer than the second, pair by pair, in percent.

    The interval of 95 % is that of the median of resampled pairs.
    """
    ratios = [one / other - 1 for one, other in zip(slower, faster, strict=True)]
    draws = random.Random(seed)
    medians = sorted(statistics.median(draws.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return {
        "pairs": len(ratios),
        "median_percent": percent(statistics.median(ratios)),
        "interval_95_percent": [percent(medians[int(share * RESAMPLES)]) for share in (0.025, 0.975)],
        "spread_percent": percent(statistics.stdev(ratios)) if len(ratios) > 1 else None,
        "ratios_percent": [percent(ratio) for ratio in ratios],
    }


def percent(share: float) -> float:
    """Two digits: the pairs are not better than that."""
    return round(100 * share, 2)
