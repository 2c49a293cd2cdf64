"""A client of a model: it sends requests where the model's Service leads, and records those that fail."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import aiohttp

from tests.bench.scale.watching import LISTED, list_and_watch
from tests.cluster.kubectl import Object
from tests.faults.loops import Loop
from tests.faults.pods import COMPLETIONS, History

_PERIOD_SECONDS = 0.1
_LIMIT_SECONDS = 30.0
_BEARER = {"Authorization": "Bearer of-the-test"}


class Client:
    """Sends ten requests a second to the pods of a Service in turn: the ready ones that its selector names.

    Kubernetes' own EndpointSlices refuse the addresses of played pods, which are those of this machine.
    """

    def __init__(self, loop: Loop, url: str, history: History, namespace: str, service: str) -> None:
        self._loop = loop
        self._history = history
        self._url = f"{url}/api/v1/namespaces/{namespace}/services"
        self._named = {"fieldSelector": f"metadata.name={service}"}
        self._service: Object | None = None
        self._turns = itertools.count()
        self._running: Future[None] | None = None
        self.answered = 0
        self.failed: list[str] = []

    def begin(self) -> None:
        """Send until `end`, once there is a Service."""
        work = self._send_forever()
        self._running = asyncio.run_coroutine_threadsafe(work, self._loop.loop)

    def end(self) -> None:
        """Send nothing more."""
        if self._running is not None:
            self._running.cancel()
            self._running = None

    async def _send_forever(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(ssl=False, limit=0, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout, headers=_BEARER) as http,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(self._follow(http))
            while self._service is None:
                await asyncio.sleep(_PERIOD_SECONDS)
            while True:
                tasks.create_task(self._send(http))
                await asyncio.sleep(_PERIOD_SECONDS)

    async def _send(self, http: aiohttp.ClientSession) -> None:
        endpoints = endpoints_of(self._service, self._history.ready)
        if not endpoints:
            self.failed.append("the Service leads nowhere")
            return
        url = f"http://{endpoints[next(self._turns) % len(endpoints)]}{COMPLETIONS}"
        try:
            async with http.post(url, timeout=aiohttp.ClientTimeout(total=_LIMIT_SECONDS)) as answer:
                await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            self.failed.append(type(error).__name__)
            return
        if answer.status == 200:
            self.answered += 1
        else:
            self.failed.append(f"HTTP {answer.status}")

    async def _follow(self, http: aiohttp.ClientSession) -> None:
        async for change, found in list_and_watch(http, self._url, self._named):
            if change == LISTED:
                self._service = next(iter(found), None)
            else:
                self._service = None if change == "DELETED" else found


def endpoints_of(service: Object | None, ready: Mapping[str, Object]) -> list[str]:
    """Where a Service leads: address and port of each ready pod that it selects. Pure."""
    if service is None:
        return []
    wanted, target = service["spec"]["selector"].items(), service["spec"]["ports"][0]["targetPort"]
    selected = [pod for pod in ready.values() if wanted <= pod["metadata"]["labels"].items()]
    return [f"{pod['status']['podIP']}:{_port(pod, target)}" for pod in selected]


def _port(pod: Object, target: Any) -> Any:
    """The number of a port that is a number or a name of the pod's."""
    ports = [port for each in pod["spec"]["containers"] for port in each.get("ports", ())]
    return next((port["containerPort"] for port in ports if port.get("name") == target), target)
