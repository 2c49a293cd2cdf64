"""Where spans go: to a collector by OTLP, and a collector that is away costs a line in the log."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from outrider.controller.stored import Key
from outrider.controller.trace_export import Collector, sending_to
from outrider.controller.traces import Traces, annotate_span, open_traces

KEY = Key("default", "m")


@asynccontextmanager
async def a_collector(*answers: int) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Its address, and what it took. answers: HTTP statuses, one after the other."""
    taken: list[bytes] = []
    statuses = iter(answers)

    async def take(request: web.Request) -> web.Response:
        status = next(statuses)
        if status == 200:
            taken.append(await request.read())
        return web.Response(status=status)

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/v1/traces", taken
    finally:
        await runner.cleanup()


def one_span(url: str | None) -> None:
    with open_traces(url) as traces, traces.span("reconcile", KEY):
        annotate_span(reason="Serving", k=None)


def test_without_a_collector_spans_go_nowhere_and_the_code_inside_runs() -> None:
    one_span(None)


async def test_a_collector_has_them_by_otlp_when_the_operator_has_ended() -> None:
    async with a_collector(200) as (url, taken):
        await asyncio.to_thread(one_span, url)

    (body,) = taken
    for word in (b"reconcile", b"outrider.model", b"outrider.reason", b"Serving", b"service.version"):
        assert word in body


async def test_the_log_says_once_that_a_collector_refuses_and_once_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with a_collector(400, 400, 200, 200) as (url, _):
        collector = Collector(url)
        for _ in range(4):
            await asyncio.to_thread(collector.export, ())

    assert caplog.messages == [
        f"{url} accepts no traces, so spans are lost until it does; nothing else is affected",
        f"{url} accepts traces again",
    ]


class Silent(SpanExporter):
    """One that does not end before a signal."""

    def __init__(self) -> None:
        self.told = threading.Event()

    def export(self, _: Sequence[ReadableSpan]) -> SpanExportResult:
        self.told.wait()
        return SpanExportResult.FAILURE


def test_the_end_of_the_operator_does_not_wait_long_for_a_collector_that_is_silent() -> None:
    silent = Silent()
    with sending_to(silent, stop_seconds=0.05) as tracer, Traces(tracer).span("reconcile", KEY):
        pass
    assert not silent.told.is_set()
    silent.told.set()
