"""When the loop ticks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from outrider.api.schedule import Schedule
from outrider.api.speculation import Actuation
from outrider.api.status import Status
from outrider.controller.tune import tuning_loop
from outrider.controller.tune.tuning_loop import TuningLoop
from outrider.engine.client import EngineClient
from outrider.tuning.relaunch.rules import Relaunching
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import World, a_model


@asynccontextmanager
async def running(world: World, engines: EngineClient) -> AsyncIterator[TuningLoop]:
    """Its interval is ten seconds: longer than any of these tests."""
    with world.loop(engines) as loop:
        task = asyncio.create_task(loop.run())
        try:
            await until_ticks(world, 1)
            yield loop
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def until_ticks(world: World, count: int) -> None:
    async with asyncio.timeout(60):
        while len(world.lookbacks) < count:
            await asyncio.sleep(0)


async def test_the_loop_looks_at_once_when_asked(
    engines: EngineClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning_loop, "_SHORTEST_REST_SECONDS", 0.0)
    world = World(models=[a_model()])
    async with running(world, engines) as loop:
        loop.look_now()
        await until_ticks(world, 2)


async def test_many_who_ask_get_one_look(engines: EngineClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_loop, "_SHORTEST_REST_SECONDS", 0.2)
    world = World(models=[a_model()])
    async with running(world, engines) as loop:
        for _ in range(100):
            loop.look_now()
        await until_ticks(world, 2)
        assert len(world.lookbacks) == 2


async def test_an_engine_that_is_not_ready_gets_the_table_and_does_not_count(engines: EngineClient) -> None:
    ready, coming = FakeEngine("a"), FakeEngine("b")
    async with serving(ready, coming) as (first, second):
        world = World(models=[replace(a_model(first, static=Schedule.constant(1)), coming=(second,))])
        async with running(world, engines):
            async with asyncio.timeout(60):
                while coming.puts == 0:
                    await asyncio.sleep(0.01)
    assert coming.schedule == Schedule.constant(1).to_wire()
    assert world.speculation["appliedReplicas"] == 1


async def test_an_engine_that_does_not_listen_yet_holds_up_nobody(
    engines: EngineClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, coming = FakeEngine("a"), FakeEngine("b", hangs=True)
    async with serving(ready, coming) as (first, second):
        world = World(models=[replace(a_model(first), coming=(second,))])
        monkeypatch.setattr(tuning_loop, "_SHORTEST_REST_SECONDS", 0.0)
        async with running(world, engines) as loop, asyncio.timeout(60):
            while ready.puts < 2:
                loop.look_now()
                await asyncio.sleep(0)


async def test_engines_get_what_is_known_before_anybody_asks_for_metrics(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        # With such a lease a tick waits for half an hour for the source.
        world = World([a_model(*pods, static=Schedule.constant(1))], source_hangs=True, lease=3600)
        async with running(world, engines):
            pass
    assert engine.schedule == Schedule.constant(1).to_wire()
    assert len(world.lookbacks) == 1


@pytest.mark.parametrize("actuation", list(Actuation))
async def test_a_round_without_measurements_says_of_metrics_what_was_said_before(
    engines: EngineClient, actuation: Actuation
) -> None:
    async with serving(FakeEngine()) as pods:
        stale = {
            "type": "MetricsAvailable",
            "status": "False",
            "reason": "MetricsStale",
            "message": "an earlier process saw this",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = Status.model_validate({"conditions": [stale]})
        world = World([replace(a_model(*pods, status=status), relaunching=Relaunching(actuation))])
        with world.loop(engines) as loop:
            await loop.resume()
            await loop.written()
    said = world.condition("MetricsAvailable")
    assert said is not None
    assert said["message"] == "an earlier process saw this"
