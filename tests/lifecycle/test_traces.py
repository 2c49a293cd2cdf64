"""An operator whose collector of traces is away at first works as ever, and sends what comes later."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp import web

from outrider.api.crd import render
from tests.lifecycle.api_server import an_api_server
from tests.lifecycle.operators import QUICK, an_operator
from tests.lifecycle.stored_models import a_model, eventually_so, is_taken
from tests.ports import free_port


async def test_a_collector_that_comes_later_gets_what_is_done_then(tmp_path: Path) -> None:
    taken: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        taken.append(await request.read())
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    port, log = free_port(), tmp_path / "operator.log"
    settings = {**QUICK, "OUTRIDER_TRACES_URL": f"http://127.0.0.1:{port}/v1/traces"}
    with an_api_server(tmp_path) as server, an_operator(server, "operator", settings=settings):
        await asyncio.to_thread(server.kubectl, "apply", "-f", "-", stdin=render())
        await eventually_so("a model is taken", lambda: is_taken(server, a_model()))
        await eventually_so("it is planned", lambda: server.get("deployment", "m") is not None)
        await eventually_so("it is told", lambda: "accepts no traces" in log.read_text())
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await eventually_so("it is told", lambda: "accepts traces again" in log.read_text())
        await eventually_so(
            "a tick of the model", lambda: any(b"outrider.decision" in body for body in taken)
        )
    assert log.read_text().count("accepts no traces") == 1
    await runner.cleanup()
