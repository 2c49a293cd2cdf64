"""The routes of stand-ins, reached through the API server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from examples.kit.cluster import RunFailed
from examples.kit.lateness import Lateness
from examples.kit.polling import looking
from outrider.telemetry.series import PodKey
from tests.bench.engine.records import ProbeSample

PORT = 8000
TWIN = "outrider/twin/v1"
PROBING = "outrider:probe_running"
LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class StandIns:
    """Asks the engines themselves. client: its base URL is the API server's."""

    client: httpx.AsyncClient

    async def pace(self, pods: Sequence[PodKey]) -> dict[PodKey, Lateness]:
        """Of each pod.

        Raises:
            RunFailed: one did not answer.
        """
        return {pod: await self._pace(pod) for pod in pods}

    async def slow_down(self, pod: PodKey, factor: float) -> None:
        """Make all steps of a pod longer by a factor, until it ends.

        Raises:
            RunFailed: it did not answer.
        """
        await self._ask("PATCH", pod, TWIN, {"time_factor": factor})

    @asynccontextmanager
    async def watching_probes(self, pods: Sequence[PodKey]) -> AsyncIterator[list[ProbeSample]]:
        """Look at all pods once a second while the block runs; a look that fails leaves a gap."""
        seen: list[ProbeSample] = []

        async def look() -> None:
            running = [await self._probes(pod) for pod in pods]
            seen.append(ProbeSample(time=time.time(), pods=len(pods), probing=sum(running)))

        async with looking(look, period_seconds=LOOK_SECONDS, gaps=RunFailed):
            yield seen

    async def _pace(self, pod: PodKey) -> Lateness:
        told = (await self._ask("GET", pod, TWIN)).json()
        return Lateness(told["scheduled"], told["lost"])

    async def _probes(self, pod: PodKey) -> bool:
        lines = (await self._ask("GET", pod, "metrics")).text.splitlines()
        return any(line.startswith(PROBING) and float(line.rsplit(" ", 1)[1]) > 0 for line in lines)

    async def _ask(self, method: str, pod: PodKey, route: str, body: object = None) -> httpx.Response:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.pod}:{PORT}/proxy/{route}"
        try:
            answer = await self.client.request(method, path, json=body)
            return answer.raise_for_status()
        except httpx.HTTPError as error:
            raise RunFailed(f"stand-in {pod}: {error}") from error
