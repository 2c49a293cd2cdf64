"""Entry point of the group ``vllm.endpoint_plugins``: the control API, on the engine's port or its own."""

from __future__ import annotations

import asyncio
import logging
import os
from argparse import Namespace
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from outrider_engine.control.request_limits import HEADER
from outrider_engine.http.control_routes import ControlRoutes
from outrider_engine.http.exposition import render_silence
from outrider_engine.http.graceful_shutdown import GracefulShutdown, ShutdownMiddleware
from outrider_engine.http.limit_header import LimitHeaderMiddleware
from outrider_engine.http.metrics_middleware import MetricsMiddleware
from outrider_engine.http.scrape import Scrape
from outrider_engine.http.server import close_connections
from outrider_engine.http.termination_message import leave
from outrider_engine.http.watchdog import HangMiddleware, Watchdog, hang_seconds
from outrider_engine.startup.before_serving import test_and_profile
from outrider_engine.startup.readiness import CoreHangs
from outrider_engine.vllm_adapter.engine_cores import EngineCores
from outrider_engine.vllm_adapter.sampling_params import attach_to_sampling_params
from outrider_protocol.environment import DRAIN_FILE_VARIABLE

logger = logging.getLogger("vllm.outrider")

DIED = "the engine core ended without a message: the system killed it, or native code failed"


class ControlApi:
    """Routes of the control API. The state itself lives in the engine cores."""

    name = "outrider_api"
    required_tasks = ("generate",)

    def __init__(self) -> None:
        self._shutdown = GracefulShutdown(_path(DRAIN_FILE_VARIABLE))
        self._engines = EngineCores(None)
        self._routes = ControlRoutes(self._engines, Scrape(self._engines), os.environ, self._shutdown)
        self._watchdog = Watchdog(self._engines, hang_seconds(os.environ))
        self._watch: asyncio.Task[None] | None = None

    def attach_router(self, app: FastAPI) -> None:
        """Add the plugin's metrics to ``/metrics`` of vLLM's application, K limits to its requests, and the
        routes that have no port of their own."""
        if self._routes.port is None:
            self._routes.add_to(app)
        try:
            attach_to_sampling_params()
        except (ImportError, AttributeError):
            logger.exception("outrider: %s is ignored, and bad K limits are not refused", HEADER)
        app.add_middleware(LimitHeaderMiddleware)
        app.add_middleware(MetricsMiddleware, text=self._metrics)
        app.add_middleware(HangMiddleware, hang=lambda: self._watchdog.hang)
        app.add_middleware(ShutdownMiddleware, shutdown=self._shutdown)

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:  # noqa: ARG002
        """Store the client of the engine cores and test them; vLLM awaits this once, before it serves."""
        self._engines = self._routes.engines = EngineCores(engine_client)
        self._routes.scrape = Scrape(self._engines)
        self._await_end(self._engines, state)
        try:
            # Several ranks cannot be tuned, and each would need requests of its own.
            if not self._engines.is_data_parallel:
                await test_and_profile(self._engines)
        except CoreHangs as hang:
            # What is raised here ends the server before it serves.
            leave(str(hang))
            raise
        # From here on steps serve clients. The loop keeps no reference to a task.
        self._watchdog = Watchdog(self._engines, hang_seconds(os.environ))
        self._watch = asyncio.create_task(self._watchdog.watch())
        self._routes.open()

    def _await_end(self, engines: EngineCores, state: Any) -> None:
        """Register for the shutdown of vLLM, whatever its cause."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            if engines.died:
                leave(DIED)
            elif hang := self._watchdog.hang:
                leave(hang)
            loop.call_soon_threadsafe(close_connections, state)
            self._shutdown.stop()

        self._shutdown.forget_drain()
        engines.on_shutdown(stop)

    async def _metrics(self) -> bytes:
        text = await self._routes.scrape.text()
        return text + render_silence(self._watchdog.silent_seconds)


def create() -> ControlApi:
    """Factory that vLLM calls in each API server process."""
    return ControlApi()


def _path(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None
