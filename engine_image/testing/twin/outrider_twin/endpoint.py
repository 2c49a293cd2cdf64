"""Entry point of the group ``vllm.endpoint_plugins``: metrics, and routes that read and change its behaviour.

The routes need no signature, since a simulated engine has nothing to protect.
"""

from __future__ import annotations

import asyncio
import logging
import os
from argparse import Namespace
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from outrider_engine.http.metrics_middleware import MetricsMiddleware
from outrider_twin.exposition import render
from outrider_twin.pace import Report
from outrider_twin.settings import VARIABLE, Behaviour

logger = logging.getLogger("vllm.outrider")

ASK_SECONDS = 2.0
"""The engine core answers between two steps; a hung one does not answer."""


class TwinApi:
    """``GET`` and ``PATCH /outrider/twin/v1``. The state lives in the engine core."""

    name = "outrider_twin"
    required_tasks = ("generate",)

    def __init__(self) -> None:
        self._engine_client: Any = None

    def attach_router(self, app: FastAPI) -> None:
        """Add the routes to vLLM's application, and the metrics to its ``/metrics``."""
        if not os.environ.get(VARIABLE):
            return
        app.add_api_route("/outrider/twin/v1", self._get, methods=["GET"], include_in_schema=False)
        app.add_api_route("/outrider/twin/v1", self._patch, methods=["PATCH"], include_in_schema=False)
        app.add_middleware(MetricsMiddleware, text=self._metrics)

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:  # noqa: ARG002
        """Store the client of the engine core."""
        self._engine_client = engine_client

    async def _get(self) -> JSONResponse:
        try:
            return JSONResponse((await self._ask("twin_report"))[0])
        except Exception as error:  # noqa: BLE001  whatever vLLM's client raises
            return _unanswered(error)

    async def _patch(self, request: Request) -> JSONResponse:
        try:
            behaviour = Behaviour.model_validate_json(await request.body())
        except ValidationError as error:
            return JSONResponse({"error": str(error)}, status_code=422)
        change = behaviour.model_dump(mode="json", exclude_none=True)
        try:
            return JSONResponse((await self._ask("twin_behave", change))[0])
        except Exception as error:  # noqa: BLE001  whatever vLLM's client raises
            return _unanswered(error)

    async def _metrics(self) -> bytes:
        try:
            reports = await self._ask("twin_report")
            name = str(self._engine_client.vllm_config.model_config.served_model_name)
            return render(reports, model_name=name)
        except Exception as error:  # noqa: BLE001  vLLM's own metrics must not suffer
            logger.warning("outrider: the metrics of the simulated engine are missing: %s", error)
            return b""

    async def _ask(self, method: str, *arguments: object) -> list[Report]:
        question = self._engine_client.collective_rpc(method, args=arguments)
        return cast(list[Report], await asyncio.wait_for(question, ASK_SECONDS))


def create() -> TwinApi:
    """Factory that vLLM calls in each API server process."""
    return TwinApi()


def _unanswered(error: Exception) -> JSONResponse:
    return JSONResponse({"error": f"the engine core does not answer: {error!r}"}, status_code=503)
