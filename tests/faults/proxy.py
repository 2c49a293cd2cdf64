"""A reverse proxy between one operator and a server, such as the API server, with a gate for faults.

It runs on an event loop of another thread; tests change its faults from theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aiohttp
from aiohttp import web

from tests.faults.faults import Call
from tests.faults.gate import Gate, cut
from tests.faults.loops import Loop

_PASSED_ON = ("Accept", "Authorization", "Content-Type", "User-Agent")
_AS_IT_IS = {"Accept-Encoding": "identity"}
"""Faults read and change bodies."""
_MOST_BYTES = 2**24


class Proxy:
    """One before one server. target: address of the server."""

    def __init__(self, target: str, gate: Gate) -> None:
        self._target = target
        self.gate = gate
        self.port = 0

    async def start(self) -> None:
        """Listen on a port of this machine."""
        connector = aiohttp.TCPConnector(ssl=False, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        self._http = aiohttp.ClientSession(
            connector=connector, timeout=timeout, headers=_AS_IT_IS, read_bufsize=_MOST_BYTES
        )
        app = web.Application(client_max_size=_MOST_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=1024).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End all connections. It can start again at its port."""
        await self._runner.cleanup()
        await self._http.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        call = Call.of(request.method, request.path, list(request.query.items()))
        body = await request.read()

        async def forward() -> web.StreamResponse:
            return await self._forwarded(request, call, body)

        return await self.gate.answer(request, call, forward)

    async def _forwarded(self, request: web.Request, call: Call, body: bytes) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        url = f"{self._target}{request.raw_path}"
        try:
            async with self._http.request(request.method, url, headers=headers, data=body or None) as answer:
                kind = answer.headers.get("Content-Type", "application/json")
                if call.watch and answer.status == 200:
                    return await self._watched(request, call, answer, kind)
                content = await answer.read()
        except aiohttp.ClientError:
            return cut(request)
        return web.Response(status=answer.status, body=content, headers={"Content-Type": kind})

    async def _watched(
        self, request: web.Request, call: Call, answer: aiohttp.ClientResponse, kind: str
    ) -> web.StreamResponse:
        watch = self.gate.watch(call)
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        try:
            async for line in answer.content:
                for each in await watch.take(line):
                    await response.write(each)
                if watch.ended:
                    break
        except (aiohttp.ClientError, ConnectionError):
            return cut(request)
        return response


@contextmanager
def a_proxy(loop: Loop, target: str, kill: Callable[[], None] = lambda: None) -> Iterator[Proxy]:
    """In the block it listens. kill: see `Gate`."""
    proxy = Proxy(target, Gate(kill))
    loop.run(proxy.start())
    try:
        yield proxy
    finally:
        proxy.gate.lift_all()
        loop.run(proxy.stop())
