"""Entry point of the group ``vllm.endpoint_plugins``: the control API on the engine's own HTTP port."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from outrider_engine.engines import EngineCores
from outrider_engine.refusal import HTTP_STATUS, Reason, Refusal
from outrider_engine.request import parse_body, read_body, require_token

TOKEN_FILE_VARIABLE = "OUTRIDER_TOKEN_FILE"


class ControlApi:
    """Routes of the control API. The state itself lives in the engine cores."""

    name = "outrider_api"
    required_tasks = ("generate",)

    def __init__(self) -> None:
        token_file = os.environ.get(TOKEN_FILE_VARIABLE)
        self._token_file = Path(token_file) if token_file else None
        self._engines = EngineCores(None)

    def attach_router(self, app: FastAPI) -> None:
        """Add the routes to vLLM's application."""
        app.add_api_route("/outrider/v1/state", self.get_state, methods=["GET"], include_in_schema=False)
        app.add_api_route(
            "/outrider/v1/schedule", self.put_schedule, methods=["PUT"], include_in_schema=False
        )

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:  # noqa: ARG002
        """Keep the way to the engine cores; vLLM calls this once, before it serves."""
        self._engines = EngineCores(engine_client)

    async def get_state(self, request: Request) -> JSONResponse:
        """``GET /outrider/v1/state``."""
        try:
            require_token(request.headers.get("authorization"), self._token_file)
            return JSONResponse(await self._engines.state())
        except Refusal as refusal:
            return _refused(refusal)

    async def put_schedule(self, request: Request) -> JSONResponse:
        """``PUT /outrider/v1/schedule``."""
        try:
            require_token(request.headers.get("authorization"), self._token_file)
            push = parse_body(await read_body(request.stream()))
            return JSONResponse(await self._engines.put(push.to_wire()))
        except Refusal as refusal:
            return _refused(refusal)


def create() -> ControlApi:
    """Factory that vLLM calls in each API server process."""
    return ControlApi()


def _refused(refusal: Refusal) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if refusal.reason is Reason.UNAUTHORIZED else None
    return JSONResponse(
        {"error": refusal.to_wire()}, status_code=HTTP_STATUS[refusal.reason], headers=headers
    )
