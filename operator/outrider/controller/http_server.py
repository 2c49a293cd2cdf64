"""The operator's own small HTTP server: metrics and probes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest


async def serve(*, port: int, registry: CollectorRegistry, ready: Callable[[], bool]) -> None:
    """Serve /metrics, /healthz and /readyz until cancelled.

    It runs on the loop that does all the work, so a loop that hangs does not answer /healthz.
    """

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        return (
            web.Response(text="ok\n")
            if ready()
            else web.Response(status=503, text="no view of the cluster\n")
        )

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
