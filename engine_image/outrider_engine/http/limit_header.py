"""Reads the K limit that a gateway sets as an HTTP header of a request."""

from __future__ import annotations

from outrider_engine.control.request_limits import HEADER
from outrider_engine.http.server import App, Receive, Scope, Send
from outrider_engine.vllm_adapter.sampling_params import LIMIT_HEADERS

_NAME = HEADER.lower().encode()


class LimitHeaderMiddleware:
    """Keeps the header's values for the task that handles the request, where vLLM makes its parameters."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        headers = scope.get("headers") or ()
        values = [value.decode("latin-1") for name, value in headers if name.lower() == _NAME]
        if not values:
            return await self._app(scope, receive, send)
        before = LIMIT_HEADERS.set(values)
        try:
            return await self._app(scope, receive, send)
        finally:
            LIMIT_HEADERS.reset(before)
