"""Entry point of the group ``vllm.endpoint_plugins``: the control API, on the engine's port or its own."""

from __future__ import annotations

import asyncio
import logging
import os
from argparse import Namespace
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from outrider_engine.control.probe import parse_probe
from outrider_engine.control.push import parse_push
from outrider_engine.control.request_limits import HEADER
from outrider_engine.control.signature import Gate
from outrider_engine.control.verbs import PUT_MEASURING, PUT_SCHEDULE, START_PROBE, PushPayload
from outrider_engine.http.exposition import render_silence
from outrider_engine.http.graceful_shutdown import GracefulShutdown, ShutdownMiddleware
from outrider_engine.http.limit_header import LimitHeaderMiddleware
from outrider_engine.http.metrics_middleware import MetricsMiddleware
from outrider_engine.http.request import parse_json, parse_measuring, read_signed
from outrider_engine.http.scrape import Scrape
from outrider_engine.http.server import close_connections, control_port, listen, serve_beside
from outrider_engine.http.termination_message import leave
from outrider_engine.http.watchdog import HangMiddleware, Watchdog, hang_seconds
from outrider_engine.startup.profiling import budget_seconds, measure_profile, start_seconds
from outrider_engine.startup.readiness import CoreHangs, SelfTestRun
from outrider_engine.startup.self_test_journal import SelfTestJournal
from outrider_engine.vllm_adapter.engine_cores import EngineCores
from outrider_engine.vllm_adapter.sampling_params import attach_to_sampling_params
from outrider_protocol.control_api import (
    HTTP_STATUS,
    PROBE_PATH,
    SCHEDULE_PATH,
    SCHEME,
    STATE_PATH,
    Reason,
    Refusal,
)
from outrider_protocol.environment import DRAIN_FILE_VARIABLE, SELF_TEST_FILE_VARIABLE, SWEEP_VARIABLE

logger = logging.getLogger("vllm.outrider")

SELF_TEST_VARIABLE = "OUTRIDER_SELF_TEST"
DIED = "the engine core ended without a message: the system killed it, or native code failed"

Answer = Callable[[bytes], Awaitable[object]]
"""Answer of a route to a body."""


class ControlApi:
    """Routes of the control API. The state itself lives in the engine cores."""

    name = "outrider_api"
    required_tasks = ("generate",)

    def __init__(self) -> None:
        self._gate = Gate.of(os.environ)
        self._port = control_port(os.environ)
        self._serving: asyncio.Task[None] | None = None
        self._shutdown = GracefulShutdown(_path(DRAIN_FILE_VARIABLE))
        self._engines = EngineCores(None)
        self._scrape = Scrape(self._engines)
        self._watchdog = Watchdog(self._engines, hang_seconds(os.environ))
        self._watch: asyncio.Task[None] | None = None

    def attach_router(self, app: FastAPI) -> None:
        """Add the plugin's metrics to ``/metrics`` of vLLM's application, K limits to its requests, and the
        routes that have no port of their own."""
        if self._port is None:
            self._add_routes(app)
        try:
            attach_to_sampling_params()
        except (ImportError, AttributeError):
            logger.exception("outrider: %s is ignored, and bad K limits are not refused", HEADER)
        app.add_middleware(LimitHeaderMiddleware)
        app.add_middleware(MetricsMiddleware, text=self._metrics)
        app.add_middleware(HangMiddleware, hang=lambda: self._watchdog.hang)
        app.add_middleware(ShutdownMiddleware, shutdown=self._shutdown)

    def _add_routes(self, app: FastAPI) -> None:
        for path, method, answer in (
            (STATE_PATH, "GET", self._get_state),
            ("/outrider/v1/counters", "GET", self._get_counters),
            (SCHEDULE_PATH, "PUT", self._put_schedule),
            (PROBE_PATH, "POST", self._post_probe),
            ("/outrider/v1/measuring", "PUT", self._put_measuring),
        ):
            route = self._guarded(method, path, answer)
            app.add_api_route(path, route, methods=[method], include_in_schema=False)

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:  # noqa: ARG002
        """Store the client of the engine cores and test them; vLLM awaits this once, before it serves."""
        self._engines = EngineCores(engine_client)
        self._scrape = Scrape(self._engines)
        self._await_end(self._engines, state)
        try:
            # Several ranks cannot be tuned, and each would need requests of its own.
            if not self._engines.is_data_parallel:
                await self._test()
        except CoreHangs as hang:
            # What is raised here ends the server before it serves.
            leave(str(hang))
            raise
        # From here on steps serve clients. The loop keeps no reference to a task.
        self._watchdog = Watchdog(self._engines, hang_seconds(os.environ))
        self._watch = asyncio.create_task(self._watchdog.watch())
        if self._port is not None:
            self._open(self._port)

    async def _test(self) -> None:
        file = _path(SELF_TEST_FILE_VARIABLE)
        if os.environ.get(SELF_TEST_VARIABLE) != "0":
            await SelfTestRun(self._engines, SelfTestJournal(file)).run()
        if os.environ.get(SWEEP_VARIABLE) != "0":
            seconds = budget_seconds(os.environ, start_seconds())
            journal = SelfTestJournal(file and file.with_suffix(".sweep"))
            await measure_profile(self._engines, journal, seconds)

    def _open(self, port: int) -> None:
        """Serve the routes on a port of their own, for as long as vLLM's server does."""
        app = FastAPI(openapi_url=None)
        self._add_routes(app)
        app.add_middleware(ShutdownMiddleware, shutdown=self._shutdown)
        try:
            listening = listen(port)
        except OSError:
            logger.exception("outrider: port %d cannot be opened: the engine has no control API", port)
            return
        self._serving = asyncio.create_task(serve_beside(app, listening))

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

    def _guarded(
        self, method: str, path: str, answer: Answer
    ) -> Callable[[Request], Awaitable[JSONResponse]]:
        """A route that requires a signature and answers a refusal with its reason."""

        async def route(request: Request) -> JSONResponse:
            given = request.headers.get("authorization")
            try:
                # The route's own path is signed: what the client wrote may be escaped or have a query.
                body = await read_signed(
                    request.stream(), self._gate, method=method, path=path, authorization=given
                )
                return JSONResponse(await answer(body))
            except Refusal as refusal:
                return _refused(refusal)

        return route

    async def _metrics(self) -> bytes:
        text = await self._scrape.text()
        return text + render_silence(self._watchdog.silent_seconds)

    async def _get_state(self, body: bytes) -> object:  # noqa: ARG002
        return await self._engines.state()

    async def _get_counters(self, body: bytes) -> object:  # noqa: ARG002
        return {"engines": await self._scrape.measurements()}

    async def _put_schedule(self, body: bytes) -> object:
        push = parse_push(parse_json(body))
        payload = PushPayload(push=push.to_wire(), costModelFault=push.cost_model_fault)
        return await self._engines.change(PUT_SCHEDULE, payload)

    async def _post_probe(self, body: bytes) -> object:
        return await self._engines.change(START_PROBE, parse_probe(parse_json(body)).to_wire())

    async def _put_measuring(self, body: bytes) -> object:
        return await self._engines.change(PUT_MEASURING, parse_measuring(parse_json(body)))


def create() -> ControlApi:
    """Factory that vLLM calls in each API server process."""
    return ControlApi()


def _path(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None


def _refused(refusal: Refusal) -> JSONResponse:
    headers = {"WWW-Authenticate": SCHEME} if refusal.reason is Reason.UNAUTHORIZED else None
    return JSONResponse(
        {"error": refusal.to_wire()}, status_code=HTTP_STATUS[refusal.reason], headers=headers
    )
