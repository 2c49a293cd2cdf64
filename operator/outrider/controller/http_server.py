"""The operator's HTTP server: its metrics and the probes, for anybody who reaches the port.

It runs on a thread of its own, so what is asked of it delays neither the work nor the Lease. What
clients can cost is bounded: one rendering of the metrics a second for all of them, a number of
connections, and one request and a lifetime for each connection. Where there are too many, the oldest one
is closed: a new one, such as the kubelet's, is still answered while others hold connections open.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from outrider.controller.heartbeat import LONGEST_SILENCE_SECONDS, Heartbeat

MOST_CONNECTIONS = 256
CONNECTION_SECONDS = 10.0
"""From the first packet to the end of the answer; Prometheus waits as long for a scrape by default."""
RENDER_SECONDS = 1.0
"""From the end of one rendering to the next one."""


class RenderedMetrics:
    """The metrics as text, rendered at most once a second however many ask at the same time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._latest: asyncio.Future[bytes] | None = None
        self._rendered_at = 0.0

    async def text(self) -> bytes:
        """At most a second older than the end of the last rendering."""
        if self._latest is None or (self._latest.done() and self._age >= RENDER_SECONDS):
            self._latest = asyncio.ensure_future(self._render())
        # A reader that goes away must not end what the others wait for, nor let another one begin.
        return await asyncio.shield(self._latest)

    @property
    def _age(self) -> float:
        return time.monotonic() - self._rendered_at

    async def _render(self) -> bytes:
        try:
            # In a thread, so that probes are answered meanwhile.
            return await asyncio.to_thread(generate_latest, self._registry)
        finally:
            self._rendered_at = time.monotonic()


class _Connections:
    """All open ones, the oldest first."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self.open: dict[_Connection, asyncio.Transport] = {}

    def accept(self) -> _Connection:
        """One more, which its transport opens."""
        return _Connection(self._server, self)

    def add(self, connection: _Connection, transport: asyncio.Transport) -> None:
        """Make room for it where there is none."""
        while len(self.open) >= MOST_CONNECTIONS:
            oldest = next(iter(self.open))
            self.open.pop(oldest).abort()
        self.open[connection] = transport

    def abort_all(self) -> None:
        """Close them without waiting for anybody."""
        for transport in list(self.open.values()):
            transport.abort()


class _Connection(web.RequestHandler):
    """aiohttp bounds the size of headers, and not the time that they take."""

    __slots__ = ("_all", "_end")

    def __init__(self, server: web.Server, others: _Connections) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), access_log=None, lingering_time=0)  # type: ignore[arg-type]
        self._all = others
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self._all.add(self, transport)
        self._end = asyncio.get_running_loop().call_later(CONNECTION_SECONDS, transport.abort)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._all.open.pop(self, None)
        if self._end is not None:
            self._end.cancel()
        super().connection_lost(exc)


async def serve(
    *, port: int, registry: CollectorRegistry, ready: Callable[[], bool], heartbeat: Heartbeat
) -> None:
    """Serve /metrics, /healthz and /readyz until cancelled.

    ready: called on this loop's thread. heartbeat: of the loop that does the work.
    """
    rendered = RenderedMetrics(registry)

    async def metrics(_: web.Request) -> web.Response:
        return _once(web.Response(body=await rendered.text(), headers={"Content-Type": CONTENT_TYPE_LATEST}))

    async def healthz(_: web.Request) -> web.Response:
        silence = heartbeat.silence
        if silence > LONGEST_SILENCE_SECONDS:
            return _once(web.Response(status=503, text=f"the work has been blocked for {silence:.0f} s\n"))
        return _once(web.Response(text="ok\n"))

    async def readyz(_: web.Request) -> web.Response:
        if ready():
            return _once(web.Response(text="ok\n"))
        return _once(web.Response(status=503, text="no view of the cluster\n"))

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    # What a client that went away had asked for is given up.
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    assert runner.server is not None
    connections = _Connections(runner.server)
    server = await asyncio.get_running_loop().create_server(connections.accept, port=port)
    try:
        await asyncio.Event().wait()
    finally:
        server.close()
        connections.abort_all()


def _once(response: web.Response) -> web.Response:
    """The connection ends with it."""
    response.force_close()
    return response
