"""Acceptance over time, read from Prometheus when the load is over."""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from examples.demo.measure import Drafts
from examples.kit.cluster import PROMETHEUS, Cluster

DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"

Samples = Sequence[tuple[float, float]]
"""(unix seconds, counter), rising in time."""


async def drafts(cluster: Cluster, name: str, since: float, until: float) -> list[Drafts]:
    """What the engine pods drafted and accepted between neighbouring scrapes.

    Read through the API server's proxy to Prometheus, so that nothing needs to be forwarded.
    """
    drafted = await counter(cluster, name, DRAFTED, since, until)
    accepted = await counter(cluster, name, ACCEPTED, since, until)
    return differences(accepted, drafted)


def differences(accepted: Samples, drafted: Samples) -> list[Drafts]:
    """Between neighbouring common samples; spans without drafts and counter resets are left out."""
    accepted_at = dict(accepted)
    common = [(moment, accepted_at[moment], count) for moment, count in drafted if moment in accepted_at]
    return [
        Drafts((begin + end) / 2, accepted_1 - accepted_0, drafted_1 - drafted_0)
        for (begin, accepted_0, drafted_0), (end, accepted_1, drafted_1) in pairwise(common)
        if drafted_1 > drafted_0 and accepted_1 >= accepted_0
    ]


async def counter(cluster: Cluster, name: str, metric: str, since: float, until: float) -> Samples:
    """The raw samples of a counter, of one pod (a replaced pod fails the demo anyway)."""
    series = await series_of(cluster, name, metric, since, until)
    if not series:
        return []
    longest = max(series, key=lambda one: len(one["values"]))
    return [(float(moment), float(value)) for moment, value in longest["values"]]


async def series_of(
    cluster: Cluster, name: str, metric: str, since: float, until: float
) -> list[dict[str, Any]]:
    """All series of a model's counter, each with its labels and raw samples."""
    selector = f'{metric}{{outrider_dev_model="{name}"}}[{round(until - since)}s]'
    query = urllib.parse.urlencode({"query": selector, "time": f"{until:.3f}"})
    answer = await cluster.get_raw(f"{PROMETHEUS}/api/v1/query?{query}")
    return list(answer["data"]["result"])
