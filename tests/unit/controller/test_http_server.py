"""The operator's HTTP server, on a thread of its own, and clients that wish it ill."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import SimpleNamespace

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from outrider.controller import http_server
from outrider.controller.http_server import MAX_SILENCE_SECONDS, Heartbeat, RenderedMetrics, serve
from outrider.loop_thread import LoopThread
from tests.ports import free_port
from tests.unit.controller.cluster_server import until

HALF_A_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Long: "


class Counted(Collector):
    """Counts how often it is rendered; each time takes a moment."""

    def __init__(self) -> None:
        self.times = 0

    def describe(self) -> Iterator[GaugeMetricFamily]:
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self.times += 1
        time.sleep(0.05)
        yield GaugeMetricFamily("rendered", "How often.", value=self.times)


@dataclass
class Served:
    """A server that runs."""

    port: int
    registry: CollectorRegistry
    heartbeat: Heartbeat
    ready: bool = True

    async def get(self, path: str) -> httpx.Response:
        return (await self.get_often(path, 1))[0]

    async def get_often(self, path: str, times: int) -> list[httpx.Response]:
        """At the same time."""
        url, limits = f"http://127.0.0.1:{self.port}{path}", httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(trust_env=False, timeout=60, verify=False, limits=limits) as http:
            return await asyncio.gather(*(http.get(url) for _ in range(times)))

    async def connect(self, first: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(first)
        return reader, writer


@asynccontextmanager
async def a_server() -> AsyncIterator[Served]:
    served = Served(free_port(), CollectorRegistry(), Heartbeat())
    async with LoopThread("http") as thread:
        serving = serve(
            port=served.port,
            registry=served.registry,
            ready=lambda: served.ready,
            heartbeat=served.heartbeat,
        )
        task = asyncio.create_task(thread.run(serving))
        await until(lambda: task.done() or listens(served.port))
        try:
            yield served
        finally:
            task.cancel()
            await asyncio.wait([task])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def ended(reader: asyncio.StreamReader) -> bool:
    """The server closes it, whatever it has answered before."""
    with suppress(ConnectionResetError):
        async with asyncio.timeout(30):
            await reader.read()
    return True


async def test_readers_of_one_second_get_one_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "RENDER_SECONDS", 3600.0)  # the machine may need more for its readers
    async with a_server() as served:
        counted = Counted()
        served.registry.register(counted)
        answers = await served.get_often("/metrics", 200)
        assert {answer.text for answer in answers} == {answers[0].text}
        assert "rendered 1.0" in answers[0].text
        assert counted.times == 1


async def test_metrics_are_rendered_again_after_a_second_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted, registry, now = Counted(), CollectorRegistry(), 100.0
    registry.register(counted)
    monkeypatch.setattr(http_server, "time", SimpleNamespace(monotonic=lambda: now))
    rendered = RenderedMetrics(registry)
    first = await rendered.text()
    now += 0.9
    assert await rendered.text() == first
    now += 0.1
    assert await rendered.text() != first
    assert counted.times == 2


async def test_a_reader_that_goes_away_neither_ends_a_rendering_nor_begins_another() -> None:
    counted, registry = Counted(), CollectorRegistry()
    registry.register(counted)
    rendered = RenderedMetrics(registry)
    for _ in range(20):
        reader = asyncio.create_task(rendered.text())
        await asyncio.sleep(0)
        reader.cancel()
    assert b"rendered 1.0" in await rendered.text()
    assert counted.times == 1


async def test_metrics_are_read_while_the_work_writes_them() -> None:
    async with a_server() as served:
        rows = Counter("rows", "Rows.", ["row"], registry=served.registry)
        asked = asyncio.create_task(served.get("/metrics"))
        count = 0
        while not asked.done():
            count += 1
            rows.labels(str(count % 5000)).inc()
            if count % 7 == 0:
                rows.remove(str(count % 5000))
            if count % 100 == 0:
                await asyncio.sleep(0)
        assert (await asked).status_code == 200


async def test_a_connection_serves_one_request() -> None:
    async with a_server() as served:
        reader, writer = await served.connect(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        answers = b""
        with suppress(ConnectionResetError):
            answers = await reader.read()
        writer.close()
    assert answers.count(b"HTTP/1.1") <= 1


@pytest.mark.parametrize("drips", [False, True])
async def test_half_a_request_is_closed(monkeypatch: pytest.MonkeyPatch, drips: bool) -> None:
    monkeypatch.setattr(http_server, "CONNECTION_SECONDS", 0.5)
    async with a_server() as served:
        reader, writer = await served.connect(HALF_A_REQUEST)
        closed = asyncio.create_task(ended(reader))
        while drips and not closed.done():
            writer.write(b"x")
            await asyncio.sleep(0.05)
        assert await closed


async def test_one_connection_too_many_ends_the_oldest_and_probes_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 20)
    monkeypatch.setattr(http_server, "CONNECTION_SECONDS", 3600)
    async with a_server() as served:
        held = [await served.connect(HALF_A_REQUEST) for _ in range(20)]
        assert (await served.get("/healthz")).text == "ok\n"
        assert await ended(held[0][0])
        assert not held[-1][0].at_eof()
        for _ in range(100):
            held.append(await served.connect(HALF_A_REQUEST))
        assert (await served.get("/healthz")).text == "ok\n"
        assert await ended(held[100][0])


async def test_a_loop_that_takes_no_turn_for_too_long_fails_its_health_and_no_earlier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_server() as served:
        began = time.monotonic()
        for silence, status in ((0.0, 200), (MAX_SILENCE_SECONDS - 5, 200), (61.0, 503)):
            late = SimpleNamespace(monotonic=lambda silence=silence: began + silence)
            monkeypatch.setattr(http_server, "time", late)
            assert (await served.get("/healthz")).status_code == status
        assert "blocked for 61 s" in (await served.get("/healthz")).text


async def test_health_is_answered_while_the_loop_of_the_work_is_blocked() -> None:
    async with a_server() as served:
        # Asked from here: this loop takes no turn until the answer is there.
        answer = httpx.get(f"http://127.0.0.1:{served.port}/healthz", trust_env=False, timeout=30)
        assert answer.status_code == 200


async def test_a_heart_beats_as_long_as_its_loop_takes_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(http_server, "time", SimpleNamespace(monotonic=lambda: now))
    heart = Heartbeat()
    now += 5
    assert heart.silence == 5
    beating = asyncio.create_task(heart.beat_forever(interval_seconds=0.0))
    await until(lambda: heart.silence == 0)
    now += 7
    await until(lambda: heart.silence == 0)
    beating.cancel()


async def test_readiness_is_what_the_operator_says() -> None:
    async with a_server() as served:
        assert (await served.get("/readyz")).status_code == 200
        served.ready = False
        answer = await served.get("/readyz")
        assert (answer.status_code, answer.text) == (503, "the operator has not read the cluster yet\n")


async def test_other_paths_are_not_there() -> None:
    async with a_server() as served:
        assert (await served.get("/")).status_code == 404
