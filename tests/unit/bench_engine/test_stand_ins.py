"""Simulated engines report through the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest

from examples.kit.cluster import RunFailed
from examples.kit.lateness import Lateness
from outrider.telemetry.series import PodKey
from tests.bench.engine.stand_ins import StandIns

A, B = PodKey("default", "a"), PodKey("default", "b")


def api(answer: Callable[[httpx.Request], httpx.Response]) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://api")


async def test_stand_ins_are_asked_through_the_api_server() -> None:
    asked: list[tuple[str, str, bytes]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path, request.content))
        return httpx.Response(200, json={"scheduled": 4.0, "lost": 0.1, "steps": 7})

    async with api(answer) as client:
        stand_ins = StandIns(client)
        assert await stand_ins.pace([A]) == {A: Lateness(4.0, 0.1)}
        await stand_ins.slow_down(A, 1.5)
    path = "/api/v1/namespaces/default/pods/a:8000/proxy/outrider/twin/v1"
    assert asked == [("GET", path, b""), ("PATCH", path, b'{"time_factor":1.5}')]


async def test_a_stand_in_that_does_not_answer_ends_the_unit() -> None:
    async with api(lambda _: httpx.Response(503)) as client:
        with pytest.raises(RunFailed, match="default/a"):
            await StandIns(client).pace([A])


async def test_probes_are_seen_in_the_engines_own_metrics() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        value = float("/a:8000/" in request.url.path)
        text = f'# TYPE outrider:probe_running gauge\noutrider:probe_running{{engine="0"}} {value}\n'
        return httpx.Response(200, text=text)

    async with api(answer) as client, StandIns(client).watching_probes([A, B]) as seen:
        while not seen:
            await asyncio.sleep(0)
    assert (seen[0].pods, seen[0].probing) == (2, 1)


async def test_a_look_that_fails_leaves_a_gap() -> None:
    looked = asyncio.Event()

    def answer(_: httpx.Request) -> httpx.Response:
        looked.set()
        return httpx.Response(503)

    async with api(answer) as client, StandIns(client).watching_probes([A]) as seen:
        await looked.wait()
    assert seen == []
