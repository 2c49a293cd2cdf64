"""The operator's HTTP server: its metrics and the probes, for every client that reaches the port.

It runs on its own thread, so requests delay neither the work nor the Lease. The cost of clients is bounded.
Metrics are rendered once a second for all of them. Connections are limited in number, and each has one
request and a lifetime. With too many connections the server closes the oldest one, so that it still answers a
new one, such as the kubelet's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

MAX_CONNECTIONS = 256
CONNECTION_SECONDS = 10.0
"""Lifetime of a connection in seconds, the default timeout of a scrape by Prometheus."""
RENDER_SECONDS = 1.0
"""Seconds from the end of one rendering to the next one."""
MAX_SILENCE_SECONDS = 60.0
"""Maximum time without a beat in seconds; beyond it /healthz fails and the kubelet restarts the pod."""


class Heartbeat:
    """The time of a loop's last beat, readable from any thread."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    async def beat_forever(self, *, interval_seconds: float = 1.0) -> None:
        """Beat until cancelled; run it on the observed loop."""
        while True:
            self._at = time.monotonic()
            await asyncio.sleep(interval_seconds)

    @property
    def silence(self) -> float:
        """Seconds since the last beat."""
        return time.monotonic() - self._at


class RenderedMetrics:
    """The metrics as text, rendered at most once a second for all readers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._latest: asyncio.Future[bytes] | None = None
        self._rendered_at = 0.0

    async def text(self) -> bytes:
        """The text of a rendering that is at most a second old."""
        if self._latest is None or (self._latest.done() and self._age >= RENDER_SECONDS):
            self._latest = asyncio.ensure_future(self._render())
        # A reader that disconnects must not end the rendering of the others, nor start another one.
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
    """All open connections, the oldest first."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self.open: dict[_Connection, asyncio.Transport] = {}

    def accept(self) -> _Connection:
        """A new connection, which its transport opens."""
        return _Connection(self._server, self)

    def add(self, connection: _Connection, transport: asyncio.Transport) -> None:
        """Add a connection, and close the oldest ones beyond the limit."""
        while len(self.open) >= MAX_CONNECTIONS:
            oldest = next(iter(self.open))
            self.open.pop(oldest).abort()
        self.open[connection] = transport

    def abort_all(self) -> None:
        """Close all connections without waiting."""
        for transport in list(self.open.values()):
            transport.abort()


class _Connection(web.RequestHandler):
    """A connection with a lifetime; aiohttp bounds the size of headers and not their time."""

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

    ready: called on this loop's thread. heartbeat: that of the loop that does the work.
    """
    rendered = RenderedMetrics(registry)

    async def metrics(_: web.Request) -> web.Response:
        return _once(web.Response(body=await rendered.text(), headers={"Content-Type": CONTENT_TYPE_LATEST}))

    async def healthz(_: web.Request) -> web.Response:
        silence = heartbeat.silence
        if silence > MAX_SILENCE_SECONDS:
            return _once(
                web.Response(status=503, text=f"the operator's loop has been blocked for {silence:.0f} s\n")
            )
        return _once(web.Response(text="ok\n"))

    async def readyz(_: web.Request) -> web.Response:
        if ready():
            return _once(web.Response(text="ok\n"))
        return _once(web.Response(status=503, text="the operator has not read the cluster yet\n"))

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    # The request of a client that disconnected is cancelled.
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
    """The response, after which the connection ends."""
    response.force_close()
    return response
