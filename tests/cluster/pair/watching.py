"""What engines and the tuner's store show while something happens to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tests.cluster.engines import Page, name_of, page, pods_of, ready_pods
from tests.cluster.kubectl import Object
from tests.cluster.pair import NAME, TICKS, evidence

KEPT_EVERY = 30.0


def pages(pods: list[str]) -> dict[str, Page]:
    """Of the engines that answer."""
    return {pod: found for pod in pods if (found := page(pod)) is not None}


async def seconds_until(holds: Callable[[], bool], *, at_most: float) -> float:
    """How long it took; fails when it takes longer."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < at_most, f"not within {at_most:.0f} s"
        await asyncio.sleep(0.2)
    return time.monotonic() - began


async def changed_evidence(known: dict[tuple[str, int], float]) -> dict[tuple[str, int], float]:
    """What is stored next; the tuner writes it from time to time."""
    await seconds_until(lambda: evidence() != known, at_most=KEPT_EVERY + TICKS)
    return evidence()


def a_new_pod_of(known: set[str]) -> Callable[[], Object | None]:
    """Looks for a ready pod that was not there before."""

    def look_for_it() -> Object | None:
        ready = set(ready_pods(NAME)) - known
        return next((pod for pod in pods_of(NAME) if name_of(pod) in ready), None)

    return look_for_it
