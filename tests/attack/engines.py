"""Engines of all pods of a room: one server for every address of this machine, on a thread of its own."""

from __future__ import annotations

import asyncio
import ipaddress
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from tests.unit.engine.fake_engine import FakeEngine

_FIRST = ipaddress.ip_address("127.1.0.1")
PAGE = """\
vllm:num_requests_running{engine="0",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
"""


class OpenEngine(FakeEngine):
    """Takes every signature: keys are the operator's own here, and no test of this room is about them.

    asked: requests to the control API. scrapes: of /metrics.
    """

    asked = 0
    scrapes = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/metrics":
            self.scrapes += 1
            if self.hangs:
                await asyncio.sleep(60)
            return web.Response(text=self.metrics)
        self.asked += 1
        return await super().handle(request)

    async def _signed(self, request: web.Request) -> str:
        return request.headers.get("Authorization", "")


class Engines:
    """Engines that differ only in their address.

    port: of all of them.
    """

    def __init__(self) -> None:
        self.port = 0
        self._engines: dict[str, OpenEngine] = {}

    def add(self, name: str) -> tuple[str, OpenEngine]:
        """One more, with an address of its own."""
        address = str(_FIRST + len(self._engines))
        self._engines[address] = OpenEngine(name, metrics=PAGE)
        return address, self._engines[address]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """What the asked engine answers."""
        assert request.transport is not None
        address = request.transport.get_extra_info("sockname")[0]
        return await self._engines[address].handle(request)


@contextmanager
def serving_engines() -> Iterator[Engines]:
    """In the block they answer."""
    engines, loop = Engines(), asyncio.new_event_loop()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", engines.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "0.0.0.0", 0, backlog=1024).start()
        engines.port = runner.addresses[0][1]
        return runner

    thread = threading.Thread(target=loop.run_forever, name="engines", daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    try:
        yield engines
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
