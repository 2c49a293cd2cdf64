"""Load through a model's Service, from a pod in the cluster."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

import pytest

from examples.kit.cluster import Cluster, Place, address
from examples.kit.loads import Load, Prompts
from examples.kit.options import CLIENT_IMAGE
from examples.kit.prompts import Kind
from examples.kit.records import Count
from examples.kit.traffic import Traffic
from tests.cluster.kubectl import namespace
from tests.cluster.models import Manifest

STRETCH_SECONDS = 10.0
"""Each has new connections, which spread over the pods of the moment; old ones stay where they are."""

REACHED_SECONDS = 120.0


@dataclass(frozen=True)
class Sent:
    """What one stretch of load came to."""

    tokens: int
    failed: int
    errors: tuple[str, ...]
    """Each with the second of the load in which it was seen."""
    silent_seconds: float
    """The longest time without a token, after the first one."""


@dataclass(frozen=True)
class Sender:
    """A client that is up."""

    cluster: Cluster
    traffic: Traffic

    async def reached(self, within: float = REACHED_SECONDS) -> None:
        """Wait until the Service lets the client in: nodes hear of a ready pod a moment after its model."""
        deadline = time.monotonic() + within
        while (sent := await self.send(1, 1.0)).failed:
            if time.monotonic() > deadline:
                pytest.fail(f"no request got through within {within:.0f} s: {sent.errors}")

    async def send(self, streams: int, seconds: float, kind: Kind = Kind.CODE) -> Sent:
        """Hold a load and count."""
        return _sum([count async for count in self.traffic.hold(Load(streams, Prompts(kind)), seconds)])

    async def send_until(
        self,
        reached: Callable[[], bool],
        streams: int,
        within: float,
        kind: Kind = Kind.CODE,
        text: str = "",
    ) -> Sent:
        """Hold a load until something is so, at most about `within` seconds, and count.

        text: class of text that a stand-in answers with.
        In stretches, because an aborted client continues in its pod.
        """
        counts: list[Count] = []
        while sum(count.seconds for count in counts) < within:
            stretch = self.traffic.hold(Load(streams, Prompts(kind), text), STRETCH_SECONDS)
            counts += [count async for count in stretch]
            if await asyncio.to_thread(reached):
                break
        return _sum(counts)

    @asynccontextmanager
    async def holding(
        self, streams: int, kind: Kind = Kind.CODE, text: str = ""
    ) -> AsyncIterator[list[Sent]]:
        """Hold a load while the block runs; afterwards the list has what it came to."""
        over, came_to = asyncio.Event(), list[Sent]()
        load = asyncio.create_task(self.send_until(over.is_set, streams, math.inf, kind, text))
        try:
            yield came_to
        finally:
            over.set()
            came_to.append(await load)


def _sum(counts: Sequence[Count]) -> Sent:
    start = counts[0].time - counts[0].seconds if counts else 0.0
    return Sent(
        tokens=sum(count.tokens for count in counts),
        failed=sum(count.failed for count in counts),
        errors=tuple(f"{count.time - start:.0f} s: {error}" for count in counts for error in count.errors),
        silent_seconds=_longest_silence(counts),
    )


def _longest_silence(counts: Sequence[Count]) -> float:
    silent, longest = 0.0, 0.0
    for count in dropwhile(lambda count: not count.tokens, counts):
        silent = 0.0 if count.tokens else silent + count.seconds
        longest = max(longest, silent)
    return longest


def client_pod(name: str) -> str:
    """Each model has its own client, so that models that are tested side by side do not share one."""
    return f"{name}-client"


@asynccontextmanager
async def sending_to(manifest: Manifest) -> AsyncIterator[Sender]:
    """A client for one model; it is gone afterwards."""
    name, served_name = manifest["metadata"]["name"], manifest["spec"]["model"]["servedName"]
    place = Place(Path(os.environ["KUBECONFIG"]), None)
    cluster = Cluster(place, await place.api(), namespace())
    url = address(name, namespace())
    traffic = Traffic(cluster, CLIENT_IMAGE, url, served_name, 256, 0.0, name=client_pod(name))
    try:
        await traffic.start()
        yield Sender(cluster, traffic)
    finally:
        await traffic.stop()
        await cluster.client.aclose()
