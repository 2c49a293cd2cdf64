"""The control API around SGLang's application, where no signature can be verified. The rest: contract."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from outrider_engine.http.server import Message
from outrider_protocol.control_api import HTTP_STATUS, Reason
from outrider_sglang import api
from outrider_sglang.sglang_adapter.engine_cores import SGLangCores


class App:
    """An application that counts how often it was started."""

    def __init__(self) -> None:
        self.started = 0
        self.router = SimpleNamespace(lifespan_context=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: Any) -> AsyncIterator[str]:
        self.started += 1
        yield "state"


async def test_an_image_without_cryptography_serves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(api, "find_spec", lambda _: None)
    app: Any = App()
    api.serve(app, SGLangCores(SimpleNamespace(), 1))
    async with app.router.lifespan_context(app) as state:
        assert (state, app.started) == ("state", 1)
    assert "no package cryptography" in caplog.text


async def test_its_control_api_says_to_anybody_why_and_what_to_do() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("the body is not read")

    await api.RefusingApi(api.NO_CRYPTOGRAPHY).answer({"type": "http"}, receive, send)
    start, body = sent
    error = json.loads(body["body"])["error"]
    assert start["status"] == HTTP_STATUS[Reason.LIVE_TUNING_IMPOSSIBLE]
    assert error["reason"] == Reason.LIVE_TUNING_IMPOSSIBLE
    assert "set spec.engine.image" in error["message"]
