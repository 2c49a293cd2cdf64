"""Graceful shutdown of an API server.

While the pod drains, it serves every request, and every answer closes its connection. So the client's next
request goes to another pod. Once vLLM ends its engine, it answers new requests with an error. This module
answers them with 503 instead, so that clients try again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from outrider_engine.http.server import App, Message, Receive, Scope, Send, send_unavailable

RETRY_AFTER_SECONDS = 1
SETTLE_SECONDS = 2.0
"""Time within which an accepted request reaches the engine core."""
READINESS = ("/health", b"readiness")
"""Path and query of the readiness probe. A server without this middleware answers it by its health."""

_POLL_SECONDS = 0.05
_READING = ("GET", "HEAD")
_CLOSE = (b"connection", b"close")
_UNAVAILABLE = json.dumps(
    {
        "error": {
            "message": "This engine is ending. Send the request again.",
            "type": "ServiceUnavailableError",
            "param": None,
            "code": 503,
        }
    }
).encode()


class GracefulShutdown:
    """Progress of the shutdown of this API server.

    drain_file: exists while the pod drains; None where nothing drains the pod.
    ending: whether the engine ends without a call of `stop`.
    """

    def __init__(self, drain_file: Path | None, *, ending: Callable[[], bool] = lambda: False) -> None:
        self._ending = ending
        self._drain_file = drain_file
        self._stopped = False
        self._under_way = 0

    @property
    def stopped(self) -> bool:
        """Whether the engine is ending."""
        return self._stopped or self._ending()

    @property
    def draining(self) -> bool:
        """Whether clients are to go elsewhere."""
        return self.stopped or (self._drain_file is not None and self._drain_file.exists())

    @contextmanager
    def request(self) -> Iterator[None]:
        """An accepted request is under way during the block."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def stop(
        self, *, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Serve no new request from here on; returns when the engine may end.

        Accepted requests come first, since the core of an engine that ends answers with an empty completion.
        It blocks, so never call it on the event loop of a running server.
        """
        if self._stopped:
            return
        self._stopped = True
        deadline = clock() + SETTLE_SECONDS
        while self._under_way and clock() < deadline:
            sleep(_POLL_SECONDS)

    def forget_drain(self) -> None:
        """Undo the drain of an earlier container of this pod: the file outlives it."""
        if self._drain_file is not None:
            self._drain_file.unlink(missing_ok=True)


class ShutdownMiddleware:
    """Ends connections as `GracefulShutdown` says; until then every request and answer passes unchanged."""

    def __init__(self, app: App, *, shutdown: GracefulShutdown) -> None:
        self._app = app
        self._shutdown = shutdown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        answer = _Answer(send, self._shutdown)
        if self._refuses(scope):
            return await answer.refuse()
        try:
            with self._shutdown.request():
                await self._app(scope, receive, answer.send)
        except Exception:
            # In an engine that ends, another try is the remedy for any error.
            if answer.begun or not self._shutdown.stopped:
                raise
            await answer.refuse()

    def _refuses(self, scope: Scope) -> bool:
        if (scope["path"], scope["query_string"]) == READINESS:
            return self._shutdown.draining
        return self._shutdown.stopped and scope["method"] not in _READING


class _Answer:
    def __init__(self, send: Send, shutdown: GracefulShutdown) -> None:
        self._send = send
        self._shutdown = shutdown
        self._refused = False
        self.begun = False

    async def send(self, message: Message) -> None:
        """Pass a part of the app's answer on, or leave it out where a refusal took its place."""
        starts = message["type"] == "http.response.start"
        if starts and self._shutdown.stopped and message["status"] == 500:
            await self.refuse()
        if self._refused:
            return
        if starts and self._shutdown.draining:
            message = {**message, "headers": [*message.get("headers", ()), _CLOSE]}
        self.begun = True
        await self._send(message)

    async def refuse(self) -> None:
        """Answer 503 in the form of vLLM's own errors."""
        self.begun = self._refused = True
        json_body = (b"content-type", b"application/json")
        retry_after = (b"retry-after", str(RETRY_AFTER_SECONDS).encode())
        await send_unavailable(self._send, _UNAVAILABLE, json_body, retry_after, _CLOSE)
