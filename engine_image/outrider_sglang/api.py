"""The control API in SGLang's HTTP server: on a port of its own, or on the engine's.

Before SGLang serves, the engine core is warmed up and tested. SGLang's own warm-up comes after that.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider_engine.http.exposition import render_silence
from outrider_engine.http.graceful_shutdown import GracefulShutdown, ShutdownMiddleware
from outrider_engine.http.metrics_middleware import MetricsMiddleware
from outrider_engine.http.scrape import Scrape
from outrider_engine.http.server import (
    Receive,
    Scope,
    Send,
    control_port,
    listen,
    send_unavailable,
    serve_beside,
)
from outrider_engine.http.termination_message import leave
from outrider_engine.http.watchdog import HangMiddleware, Watchdog, hang_seconds
from outrider_engine.startup.before_serving import test_and_profile
from outrider_engine.startup.readiness import PROMPT, CoreHangs
from outrider_protocol.control_api import Reason, Refusal
from outrider_protocol.environment import DRAIN_FILE_VARIABLE
from outrider_sglang.sglang_adapter.engine_cores import SGLangCores

if TYPE_CHECKING:
    from fastapi import FastAPI

logger = logging.getLogger("sglang.outrider")

WARM_UP_SECONDS = 300.0
"""Limit for the first request: SGLang compiles some kernels as they are first used."""
WARM_UP_TOKENS = 8
NO_CRYPTOGRAPHY = (
    "the Python of this image has no package cryptography, by which the plugin verifies signatures. To tune, "
    "set spec.engine.image to an image that has it"
)


class ControlApi:
    """What the plugin adds to SGLang's application. The state itself lives in the schedulers."""

    def __init__(self, engines: SGLangCores) -> None:
        from outrider_engine.http.control_routes import ControlRoutes

        file = os.environ.get(DRAIN_FILE_VARIABLE)
        self._engines = engines
        self._shutdown = GracefulShutdown(Path(file) if file else None, ending=lambda: engines.ending)
        self._routes = ControlRoutes(engines, Scrape(engines), os.environ, self._shutdown)
        self._watchdog = Watchdog(engines, hang_seconds(os.environ))
        self._watch: asyncio.Task[None] | None = None

    def add_to(self, app: FastAPI) -> None:
        """Add the plugin's metrics to ``/metrics``, and the routes that have no port of their own."""
        if self._routes.port is None:
            self._routes.add_to(app)
        app.add_middleware(MetricsMiddleware, text=self._metrics)
        app.add_middleware(HangMiddleware, hang=lambda: self._watchdog.hang)
        app.add_middleware(ShutdownMiddleware, shutdown=self._shutdown)

    async def before_serving(self) -> None:
        """Test the engine core, then open the control API.

        Raises:
            CoreHangs: the core stopped answering, so the engine cannot serve.
        """
        self._shutdown.forget_drain()
        if self._engines.several(1) is None:
            try:
                await self._warm_up()
                await test_and_profile(self._engines)
            except CoreHangs as hang:
                leave(str(hang))
                raise
        # The loop keeps no reference to a task.
        self._watch = asyncio.create_task(self._watchdog.watch())
        self._routes.open()

    async def _warm_up(self) -> None:
        state = await self._engines.state()
        if not state["liveTuning"]["possible"]:
            return
        try:
            async with asyncio.timeout(WARM_UP_SECONDS):
                await self._engines.generate(PROMPT, WARM_UP_TOKENS)
        except Exception:
            logger.exception("outrider: the first request failed; the self-test will show why")

    async def _metrics(self) -> bytes:
        return await self._routes.scrape.text() + render_silence(self._watchdog.silent_seconds)


class RefusingApi:
    """The control API of an image in which no signature can be verified: it gives the reason to anybody.

    why: what the image lacks.
    """

    def __init__(self, why: str) -> None:
        refusal = Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, why)
        self._body = json.dumps({"error": refusal.to_wire()}).encode()
        self._serving: asyncio.Task[None] | None = None

    async def before_serving(self) -> None:
        """Open the control API's port, where it has one of its own."""
        port = control_port(os.environ)
        if port is not None:
            self._serving = asyncio.create_task(serve_beside(self.answer, listen(port)))

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """The ASGI interface: the same answer to every request."""
        await send_unavailable(send, self._body, (b"content-type", b"application/json"))


def serve(app: FastAPI, engines: SGLangCores) -> None:
    """Add the control API to SGLang's application, before its server starts."""
    if find_spec("cryptography") is None:
        logger.error("outrider: the engine cannot be tuned live: %s", NO_CRYPTOGRAPHY)
        api: ControlApi | RefusingApi = RefusingApi(NO_CRYPTOGRAPHY)
    else:
        api = ControlApi(engines)
        api.add_to(app)
    served = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(application: Any) -> AsyncIterator[Any]:
        await api.before_serving()
        async with served(application) as state:
            yield state

    app.router.lifespan_context = lifespan
