"""Adds the plugin's metrics to the answer of the engine's own ``/metrics``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from outrider_engine.http.server import App, Message, Receive, Scope, Send


class MetricsMiddleware:
    """Adds text to the answer of ``GET /metrics``; any other request passes.

    text: returns the text to add; empty for none. Must not raise.
    """

    def __init__(self, app: App, *, text: Callable[[], Awaitable[bytes]]) -> None:
        self._app = app
        self._text = text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if not _asks_for_metrics(scope):
            return await self._app(scope, receive, send)
        text = await self._text()
        # Text cannot be added to a compressed answer, nor to OpenMetrics, so none is requested.
        headers = [pair for pair in scope["headers"] if pair[0].lower() not in _CHOICES]
        answer = _Answer(send, text)
        return await self._app({**scope, "headers": headers}, receive, answer.send)


_CHOICES = (b"accept", b"accept-encoding")
"""Headers by which a client chooses the form of the answer. Without them it is plain text."""


class _Answer:
    """Delays the start of an answer until its length is known."""

    def __init__(self, send: Send, text: bytes) -> None:
        self._send = send
        self._text = text
        self._start: Message | None = None
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is None or message["type"] != "http.response.body":
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if message.get("more_body"):
            return
        if _is_text(self._start):
            self._body += self._text
        headers = [pair for pair in self._start["headers"] if pair[0].lower() != b"content-length"]
        headers.append((b"content-length", str(len(self._body)).encode()))
        await self._send({**self._start, "headers": headers})
        await self._send({"type": "http.response.body", "body": bytes(self._body)})


def _asks_for_metrics(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path.rstrip("/") == "/metrics"


def _is_text(start: Message) -> bool:
    """Whether lines may follow: OpenMetrics has an end mark."""
    kinds = [value for name, value in start["headers"] if name.lower() == b"content-type"]
    return start["status"] == 200 and any(kind.startswith(b"text/plain") for kind in kinds)
