"""The HTTP servers of an API server process: vLLM's, and the control API's own. Knows uvicorn's names."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from outrider_protocol.environment import CONTROL_PORT_VARIABLE

# The ASGI interface, which the plugin's middleware keeps to.
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def send_unavailable(send: Send, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Answer a request with 503. headers: beside the length of the body."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 503, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def control_port(environment: Mapping[str, str]) -> int | None:
    """The control API's own port; None where it is on the engine's HTTP port.

    Raises:
        ValueError: the value is not a number.
    """
    value = environment.get(CONTROL_PORT_VARIABLE)
    return int(value) if value else None


def listen(port: int) -> socket.socket:
    """A socket for connections to any address of the pod, over IPv4 and IPv6.

    Several API server processes of one engine share the port; each asks the same engine core.

    Raises:
        OSError: the port is in use.
    """
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, reuse_port=True)
    return socket.create_server(("", port), reuse_port=True)


async def serve_beside(app: App, listening: socket.socket) -> None:
    """Serve an application of the plugin's own on the event loop of vLLM's server, until cancelled."""
    import uvicorn

    # h11 bounds the size of headers. Logging is vLLM's to configure, and signals are vLLM's to take.
    config = uvicorn.Config(app, http="h11", lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext
    await server.serve(sockets=[listening])


def close_connections(state: Any) -> None:
    """Close each connection that is idle, and each of the others once its answer is sent.

    state: that of vLLM's application. Runs on the server's event loop.
    """
    for connection in list(state.server.server_state.connections):
        # A WebSocket has no such cycle of requests. It would be broken off, so it is left alone.
        if hasattr(connection, "cycle"):
            connection.shutdown()
