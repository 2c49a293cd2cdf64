"""Load through a model's Service, from a pod in the cluster."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

from examples.demo.cluster import Cluster, Place
from examples.demo.measure import Second
from examples.demo.options import CLIENT_IMAGE
from examples.demo.phases import Phase
from examples.demo.prompts import Kind
from examples.demo.traffic import Traffic

STRETCH_SECONDS = 10.0
"""Each has new connections, which spread over the pods of the moment; old ones stay where they are."""


@dataclass(frozen=True)
class Sent:
    """What one stretch of load came to."""

    tokens: int
    failed: int
    errors: tuple[str, ...]
    silent_seconds: float
    """The longest time without a token, after the first one."""


@dataclass(frozen=True)
class Sender:
    """A client that is up."""

    cluster: Cluster
    traffic: Traffic

    async def send(self, streams: int, seconds: float, kind: Kind = Kind.CODE) -> Sent:
        """Hold a load and count."""
        return _sum([second async for second in self.traffic.drive(Phase(kind, streams), seconds)])

    async def send_until(
        self, reached: Callable[[], bool], streams: int, within: float, kind: Kind = Kind.CODE
    ) -> Sent:
        """Hold a load until something is so, at most about `within` seconds, and count.

        In stretches, since a client that is broken off goes on in its pod.
        """
        counts: list[Second] = []
        while sum(count.seconds for count in counts) < within:
            stretch = self.traffic.drive(Phase(kind, streams), STRETCH_SECONDS)
            counts += [second async for second in stretch]
            if await asyncio.to_thread(reached):
                break
        return _sum(counts)

    @asynccontextmanager
    async def holding(self, streams: int, kind: Kind = Kind.CODE) -> AsyncIterator[list[Sent]]:
        """Hold a load while the block runs; afterwards the list has what it came to."""
        over, came_to = asyncio.Event(), list[Sent]()
        load = asyncio.create_task(self.send_until(over.is_set, streams, math.inf, kind))
        try:
            yield came_to
        finally:
            over.set()
            came_to.append(await load)


def _sum(counts: Sequence[Second]) -> Sent:
    return Sent(
        tokens=sum(count.tokens for count in counts),
        failed=sum(count.failed for count in counts),
        errors=tuple(error for count in counts for error in count.errors),
        silent_seconds=_longest_silence(counts),
    )


def _longest_silence(counts: Sequence[Second]) -> float:
    silent, longest = 0.0, 0.0
    for count in dropwhile(lambda count: not count.tokens, counts):
        silent = 0.0 if count.tokens else silent + count.seconds
        longest = max(longest, silent)
    return longest


@asynccontextmanager
async def sending_to(name: str, served_name: str = "tiny") -> AsyncIterator[Sender]:
    """A client for one model of the namespace ``default``; it is gone afterwards."""
    place = Place(Path(os.environ["KUBECONFIG"]), None)
    cluster = Cluster(place, await place.api(), "default")
    traffic = Traffic(cluster, CLIENT_IMAGE, f"http://{name}.default.svc/v1", served_name, 256, 0.0)
    try:
        await traffic.start()
        yield Sender(cluster, traffic)
    finally:
        await traffic.stop()
        await cluster.client.aclose()
