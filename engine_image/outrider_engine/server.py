"""The HTTP server of an API server process. The only module that knows the names of uvicorn."""

from __future__ import annotations

from typing import Any


def close_connections(state: Any) -> None:
    """Close each connection that is idle, and each of the others once its answer is sent.

    state: that of vLLM's application. Runs on the server's event loop.
    """
    for connection in list(state.server.server_state.connections):
        # A WebSocket has no such cycle of requests. It would be broken off, so it is left alone.
        if hasattr(connection, "cycle"):
            connection.shutdown()
