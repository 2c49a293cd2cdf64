"""The HTTP servers of an API server process. The only module that knows the names of uvicorn."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from outrider_engine.http.asgi import App


def close_connections(state: Any) -> None:
    """Close each connection that is idle, and each of the others once its answer is sent.

    state: that of vLLM's application. Runs on the server's event loop.
    """
    for connection in list(state.server.server_state.connections):
        # A WebSocket has no such cycle of requests. It would be broken off, so it is left alone.
        if hasattr(connection, "cycle"):
            connection.shutdown()


async def serve_beside(app: App, listening: socket.socket) -> None:
    """Serve an application of the plugin's own on the event loop of vLLM's server, until cancelled."""
    import uvicorn

    # h11 bounds the size of headers. Logging is vLLM's to configure, and signals are vLLM's to take.
    config = uvicorn.Config(app, http="h11", lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext
    await server.serve(sockets=[listening])
