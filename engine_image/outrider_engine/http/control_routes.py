"""The routes of the control API, on the engine's port or on one of their own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from outrider_engine.control.engine_group import EngineGroup
from outrider_engine.control.probe import parse_probe
from outrider_engine.control.push import parse_push
from outrider_engine.control.signature import Gate
from outrider_engine.control.verbs import PUT_MEASURING, PUT_SCHEDULE, START_PROBE, PushPayload
from outrider_engine.http.graceful_shutdown import GracefulShutdown, ShutdownMiddleware
from outrider_engine.http.request import parse_json, parse_measuring, read_signed
from outrider_engine.http.scrape import Scrape
from outrider_engine.http.server import control_port, listen, serve_beside
from outrider_protocol.control_api import (
    HTTP_STATUS,
    PROBE_PATH,
    SCHEDULE_PATH,
    SCHEME,
    STATE_PATH,
    Reason,
    Refusal,
)

logger = logging.getLogger("vllm.outrider")

Answer = Callable[[bytes], Awaitable[object]]
"""Answer of a route to a body."""


class ControlRoutes:
    """The routes of one API server process. The state itself lives in the engine cores.

    environment: the gate's key, and the port; see `outrider_protocol.environment`.
    shutdown: ends the connections of the routes' own port.
    """

    def __init__(
        self, engines: EngineGroup, scrape: Scrape, environment: Mapping[str, str], shutdown: GracefulShutdown
    ) -> None:
        self.engines = engines
        self.scrape = scrape
        self.port = control_port(environment)
        self._gate = Gate.of(environment)
        self._shutdown = shutdown
        self._serving: asyncio.Task[None] | None = None

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to an application."""
        for path, method, answer in (
            (STATE_PATH, "GET", self._get_state),
            ("/outrider/v1/counters", "GET", self._get_counters),
            (SCHEDULE_PATH, "PUT", self._put_schedule),
            (PROBE_PATH, "POST", self._post_probe),
            ("/outrider/v1/measuring", "PUT", self._put_measuring),
        ):
            route = self._guarded(method, path, answer)
            app.add_api_route(path, route, methods=[method], include_in_schema=False)

    def open(self) -> None:
        """Serve the routes on their own port, if they have one, for as long as the engine's server does."""
        if self.port is None:
            return
        app = FastAPI(openapi_url=None)
        self.add_to(app)
        app.add_middleware(ShutdownMiddleware, shutdown=self._shutdown)
        try:
            listening = listen(self.port)
        except OSError:
            logger.exception("outrider: port %d cannot be opened: the engine has no control API", self.port)
            return
        self._serving = asyncio.create_task(serve_beside(app, listening))

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
                headers = {"WWW-Authenticate": SCHEME} if refusal.reason is Reason.UNAUTHORIZED else None
                status = HTTP_STATUS[refusal.reason]
                return JSONResponse({"error": refusal.to_wire()}, status_code=status, headers=headers)

        return route

    async def _get_state(self, body: bytes) -> object:  # noqa: ARG002
        return await self.engines.state()

    async def _get_counters(self, body: bytes) -> object:  # noqa: ARG002
        return {"engines": await self.scrape.measurements()}

    async def _put_schedule(self, body: bytes) -> object:
        push = parse_push(parse_json(body))
        payload = PushPayload(push=push.to_wire(), costModelFault=push.cost_model_fault)
        return await self.engines.change(PUT_SCHEDULE, payload)

    async def _post_probe(self, body: bytes) -> object:
        return await self.engines.change(START_PROBE, parse_probe(parse_json(body)).to_wire())

    async def _put_measuring(self, body: bytes) -> object:
        return await self.engines.change(PUT_MEASURING, parse_measuring(parse_json(body)))
