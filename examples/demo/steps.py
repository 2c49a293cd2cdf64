"""K of the engine's steps over time, read from Prometheus when the load is over.

The engine may choose K at each step, so the schedule's K is not the K in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from examples.demo.acceptance import series_of
from examples.kit.cluster import Cluster

STEPS = "outrider:steps_total"
CHOSEN = "outrider:fast_loop_steps_total"
MIXED = "mixed"
"""The `k` of steps whose requests drafted with different K, such as the step after a change of K."""

Totals = Mapping[float, Mapping[str, float]]
"""By the unix seconds of a scrape: the steps since the engine's start, by `k`."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Engine steps between two scrapes; ``time`` lies in their middle.

    by_k: without those whose requests drafted with different K. chosen: those whose K the engine chose.
    total: all steps.
    """

    time: float
    by_k: Mapping[int, float]
    chosen: float
    total: float


async def steps(cluster: Cluster, name: str, since: float, until: float) -> list[Steps]:
    """What the engine pods counted between neighbouring scrapes."""
    counted = totals(await series_of(cluster, name, STEPS, since, until))
    chosen = totals(await series_of(cluster, name, CHOSEN, since, until))
    return differences(counted, chosen)


def totals(series: Iterable[Mapping[str, Any]]) -> Totals:
    """Sums over batch sizes. A series appears with its first step; until then it is 0."""
    found: dict[float, dict[str, float]] = {}
    for one in series:
        k = one["metric"]["k"]
        for moment, value in one["values"]:
            scrape = found.setdefault(float(moment), {})
            scrape[k] = scrape.get(k, 0.0) + float(value)
    return found


def differences(counted: Totals, chosen: Totals) -> list[Steps]:
    """Between neighbouring scrapes; spans without a step and counter resets are left out."""
    spans = []
    for begin, end in pairwise(sorted(counted)):
        more = {k: value - counted[begin].get(k, 0.0) for k, value in counted[end].items()}
        if min(more.values()) < 0:
            continue
        by_k = {int(k): steps for k, steps in more.items() if k != MIXED and steps > 0}
        own = sum(chosen.get(end, {}).values()) - sum(chosen.get(begin, {}).values())
        if by_k:
            ordered = dict(sorted(by_k.items()))
            spans.append(Steps((begin + end) / 2, ordered, max(0.0, own), sum(more.values())))
    return spans


def mean_k(by_k: Mapping[int, float]) -> float | None:
    """K in the mean over steps; None without any."""
    total = sum(by_k.values())
    return sum(k * steps for k, steps in by_k.items()) / total if total > 0 else None


def together(spans: Iterable[Mapping[int, float]]) -> dict[int, float]:
    """Steps of all spans, by K."""
    found: dict[int, float] = {}
    for by_k in spans:
        for k, count in by_k.items():
            found[k] = found.get(k, 0.0) + count
    return dict(sorted(found.items()))
