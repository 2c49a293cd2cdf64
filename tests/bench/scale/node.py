"""A played kubelet and the engines of all its pods, in one process.

``python -m tests.bench.scale.node URL PORT ENGINE_PORT``: the API server, the port for ``/summary``,
``/mark`` and ``/slow``, and that of the engines. Each pod gets an address of its own in 127.0.0.0/8, and all
engines listen on one port there.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import sys
import time
from collections.abc import Set
from typing import Any

import aiohttp
from aiohttp import web

from outrider.plan.names import MODEL_LABEL
from tests.bench.scale.engines import BusyEngine
from tests.bench.scale.slow import SECONDS, Slow
from tests.bench.scale.watching import LISTED, list_and_watch

START_SECONDS = 1.0
"""From a running container to a listening engine."""
_FIRST = ipaddress.ip_address("127.1.0.1")
_PATCHES_AT_ONCE = 32
log = logging.getLogger(__name__)


class Node:
    """Brings up each pod of a model as it appears: running first, then ready.

    start_seconds: from a running container to a listening engine.
    """

    def __init__(
        self, url: str, http: aiohttp.ClientSession, *, start_seconds: float = START_SECONDS
    ) -> None:
        self._url = url
        self._http = http
        self._start_seconds = start_seconds
        self._engines: dict[str, BusyEngine] = {}
        self._seen: set[str] = set()
        self._slots = asyncio.Semaphore(_PATCHES_AT_ONCE)
        self.marked_at = time.time()
        self._slow = Slow.NOTHING

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer as the engine at the address that was asked."""
        assert request.transport is not None
        address = request.transport.get_extra_info("sockname")[0]
        engine = self._engines.get(address)
        of_first = engine is not None and engine.model == 0
        if self._slow is Slow.PODS or (self._slow is Slow.SLOW_MODEL and of_first):
            await asyncio.sleep(SECONDS)
        if self._slow is Slow.SILENT_MODEL and of_first:
            await asyncio.Event().wait()
        return web.Response(status=503) if engine is None else await engine.handle(request)

    async def watch(self) -> None:
        """Follow the pods until cancelled."""
        path, query = f"{self._url}/api/v1/pods", {"labelSelector": MODEL_LABEL}
        async with asyncio.TaskGroup() as starting:
            async for change, found in list_and_watch(self._http, path, query):
                if change != LISTED:
                    self.saw(change, found, starting)
                    continue
                self.listed({pod["metadata"]["uid"] for pod in found})
                for pod in found:
                    self.saw("ADDED", pod, starting)

    def listed(self, uids: Set[str]) -> None:
        """Take the UIDs of all pods that there are."""

    def saw(self, change: str, pod: dict[str, Any], starting: asyncio.TaskGroup) -> None:
        """Start a new pod. change: type of an event; a listed pod counts as added."""
        if change == "ADDED":
            self._see(pod, starting)

    def engine_of(self, pod: dict[str, Any]) -> BusyEngine:
        """The engine that a pod starts."""
        model = int(pod["metadata"]["labels"][MODEL_LABEL].rpartition("-")[2])
        return BusyEngine(pod["metadata"]["name"], model=model)

    def _see(self, pod: dict[str, Any], starting: asyncio.TaskGroup) -> None:
        uid = pod["metadata"]["uid"]
        if uid not in self._seen:
            self._seen.add(uid)
            starting.create_task(self._start(pod, str(_FIRST + len(self._seen) - 1)))

    async def _start(self, pod: dict[str, Any], address: str) -> None:
        await self._patch(pod, address, ready=False)
        await asyncio.sleep(self._start_seconds)
        self._engines[address] = self.engine_of(pod)
        await self._patch(pod, address, ready=True)

    async def _patch(self, pod: dict[str, Any], address: str, *, ready: bool) -> None:
        meta = pod["metadata"]
        containers = [
            {
                "name": each["name"],
                "image": each["image"],
                "imageID": "engine",
                "ready": ready,
                "restartCount": 0,
                "state": {"running": {}},
            }
            for each in pod["spec"]["containers"]
        ]
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": str(ready)},
            ],
            "containerStatuses": containers,
        }
        path = f"{self._url}/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
        headers = {"Content-Type": "application/merge-patch+json"}
        async with self._slots, self._http.patch(path, json={"status": status}, headers=headers) as answer:
            if answer.status >= 300:
                log.warning("%s: %s", meta["name"], await answer.text())

    async def look_forever(self) -> None:
        """End leases on time."""
        while True:
            for engine in self._engines.values():
                engine.look()
            await asyncio.sleep(0.5)

    async def summary(self, request: web.Request) -> web.Response:
        """What the measuring process asks for. With ``others=1`` without the engines of the first model."""
        others = request.query.get("others") == "1"
        engines = [each for each in self._engines.values() if each.model or not others]
        firsts = [each.first_push_at - self.marked_at for each in engines if each.first_push_at is not None]
        return web.json_response(
            {
                "engines": len(engines),
                "of_first_model": [at for at, each in self._engines.items() if each.model == 0],
                "pushed": sum(each.source == "Pushed" for each in engines),
                "since_mark": len(firsts),
                "last_first_push": max(firsts, default=None),
                "lapses": sum(each.lapses for each in engines),
                "puts": sum(each.puts for each in engines),
                "gets": sum(each.gets for each in engines),
                "scrapes": sum(each.scrapes for each in engines),
            }
        )

    async def slow(self, request: web.Request) -> web.Response:
        """Answer slowly from now on, as the body says."""
        self._slow = Slow(await request.text())
        return web.json_response({})

    async def mark(self, _: web.Request) -> web.Response:
        """Count first pushes from now on."""
        self.marked_at = time.time()
        for engine in self._engines.values():
            engine.mark()
        return web.json_response({})


async def _serve(app: web.Application, host: str, port: int) -> None:
    # As vLLM's server: it closes a connection after five idle seconds.
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=5.0)
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=4096).start()


async def main(url: str, port: int, engine_port: int) -> None:
    headers = {"Authorization": "Bearer of-the-test"}
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(ssl=False, limit=0)
    async with aiohttp.ClientSession(
        headers=headers, timeout=timeout, connector=connector, read_bufsize=2**22
    ) as http:
        node = Node(url, http)
        engines, questions = web.Application(), web.Application()
        engines.router.add_route("*", "/{path:.*}", node.answer)
        questions.add_routes(
            [web.get("/summary", node.summary), web.post("/mark", node.mark), web.post("/slow", node.slow)]
        )
        await _serve(engines, "0.0.0.0", engine_port)
        await _serve(questions, "127.0.0.1", port)
        await asyncio.gather(node.watch(), node.look_forever())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
