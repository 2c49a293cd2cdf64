"""When the loop ticks."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from outrider.api.launch import RelaunchPolicy
from outrider.api.reasons import EventReason
from outrider.api.status import Status
from outrider.api.tuning import Actuation
from outrider.controller.fleet import TunedModel
from outrider.controller.stored import Key
from outrider.controller.tune import model_tuner
from outrider.controller.tune.model_tuner import ModelTuner
from outrider.controller.tune.outcome import TickOutcome
from outrider.controller.tune.tuning_loop import TuningLoop
from outrider.engine.client import EngineClient
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import World, a_model, an_override, step


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
            await asyncio.sleep(0.001)


def key(name: str) -> Key:
    return Key("default", name)


async def until_puts(engine: FakeEngine, count: int) -> None:
    async with asyncio.timeout(60):
        while engine.puts < count:
            await asyncio.sleep(0.001)


async def settled(world: World, *engines: FakeEngine) -> list[int]:
    """The tick after the first round is over; pushes so far."""
    await until_ticks(world, 1)
    for engine in engines:
        await until_puts(engine, 2)
    return [engine.puts for engine in engines]


async def test_a_model_that_changed_is_looked_at_at_once_and_no_other_and_metrics_are_not_asked_for(
    engines: EngineClient,
) -> None:
    changed, other = FakeEngine("a"), FakeEngine("b")
    async with serving(changed, other) as (first, second):
        world = World([a_model(first, name="changed"), a_model(second, name="other")])
        async with running(world, engines) as loop:
            before, of_other = await settled(world, changed, other)
            world.change(0, instructions=an_override(1))
            loop.look_now(key("changed"))
            await until_puts(changed, before + 1)

            assert changed.schedule == Schedule.constant(1).to_wire()
            assert other.puts == of_other
            assert len(world.lookbacks) == 1


async def test_a_model_that_changes_all_the_time_is_looked_at_early_now_and_then(
    engines: EngineClient,
) -> None:
    changed, other = FakeEngine("a"), FakeEngine("b")
    async with serving(changed, other) as (first, second):
        world = World(
            [a_model(first, name="changed"), a_model(second, name="other")],
            timing={"rest": 0.001, "early_tick": 3600.0},
        )
        async with running(world, engines) as loop:
            before, of_other = await settled(world, changed, other)
            for _ in range(100):
                loop.look_now(key("changed"))
                await asyncio.sleep(0.001)
            loop.look_now(key("other"))
            await until_puts(other, of_other + 1)

            assert changed.puts == before + 1


async def test_what_changed_too_soon_is_looked_at_when_its_time_has_come(
    engines: EngineClient,
) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)], timing={"rest": 0.001, "early_tick": 0.2})
        async with running(world, engines) as loop:
            (before,) = await settled(world, engine)
            for count in (1, 2):
                loop.look_now(key("m"))
                await until_puts(engine, before + count)


async def test_many_who_ask_get_one_look(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        async with running(world, engines) as loop:
            (before,) = await settled(world, engine)
            for _ in range(100):
                loop.look_now(key("m"))
            await until_puts(engine, before + 1)
            await asyncio.sleep(0.05)

            assert engine.puts == before + 1


async def test_a_model_that_is_gone_or_fails_early_is_left_to_the_next_tick(
    engines: EngineClient,
) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)], timing={"rest": 0.001, "early_tick": 0.0})
        async with running(world, engines) as loop:
            (before,) = await settled(world, engine)
            loop.look_now(key("gone"))
            world.fleet_error = ValueError("a defect")
            reads = world.fleet_reads
            loop.look_now(key("m"))
            async with asyncio.timeout(60):
                while world.fleet_reads == reads:
                    await asyncio.sleep(0.001)
            world.fleet_error = None
            loop.look_now(key("m"))
            await until_puts(engine, before + 1)


async def test_a_tick_waits_for_an_early_look_at_the_same_model(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await loop.tick()
            (tuned,) = loop._tuned.values()
            async with tuned.turn:
                ticking = asyncio.create_task(loop.tick())
                await asyncio.sleep(0.05)
                assert engine.puts == 1
            await ticking
    assert engine.puts == 2


async def test_between_two_models_others_have_a_turn(
    engines: EngineClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, turns, seen = World([a_model(name=name) for name in "abc"]), 0, []
    tick = model_tuner.ModelTuner.tick

    async def noted(self: ModelTuner, *arguments: Any, **options: Any) -> TickOutcome:
        seen.append(turns)
        return await tick(self, *arguments, **options)

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    with world.loop(engines) as loop:
        await loop.tick()  # what an earlier process knew is read
        monkeypatch.setattr(model_tuner.ModelTuner, "tick", noted)
        counting = asyncio.create_task(count())
        await loop.tick()
        counting.cancel()
    assert len(set(seen)) == 3


async def test_a_model_whose_tick_takes_too_much_cpu_rests_and_says_so_and_the_others_do_not(
    engines: EngineClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    dear, other = FakeEngine("a"), FakeEngine("b")
    async with serving(dear, other) as (first, second):
        world = World([a_model(first, name="dear"), a_model(second, name="other")], timing={"cpu": 0.4})
        tick = model_tuner.ModelTuner.tick

        async def computes(self: ModelTuner, model: TunedModel, *more: Any, **options: Any) -> TickOutcome:
            until = time.thread_time() + (0.5 if model.name == "dear" else 0)
            while time.thread_time() < until:
                pass
            return await tick(self, model, *more, **options)

        monkeypatch.setattr(model_tuner.ModelTuner, "tick", computes)
        told = (EventReason.CPU_BUDGET_EXCEEDED,)
        with world.loop(engines) as loop:
            for _ in range(3):
                await step(loop)
            assert (dear.puts, other.puts) == (1, 3)
            notes = [n for n, (why, _) in zip(world.notes, world.events, strict=True) if why in told]
            assert len(notes) == 1
            assert re.search(r"took \d\.\d s of CPU and may take 0\.4 s", notes[0])
            world.models.pop(0)
            await step(loop)
            world.models.insert(0, a_model(first, name="dear"))
            await step(loop)
            assert dear.puts == 2, "a model that comes anew owes nothing"


async def test_an_engine_that_is_not_ready_gets_the_table_and_does_not_count(engines: EngineClient) -> None:
    ready, coming = FakeEngine("a"), FakeEngine("b")
    async with serving(ready, coming) as (first, second):
        world = World(models=[replace(a_model(first, static=Schedule.constant(1)), starting_pods=(second,))])
        async with running(world, engines):
            async with asyncio.timeout(60):
                while coming.puts == 0:
                    await asyncio.sleep(0.01)
    assert coming.schedule == Schedule.constant(1).to_wire()
    assert world.speculation["appliedReplicas"] == 1


async def test_an_engine_that_does_not_listen_yet_holds_up_nobody(
    engines: EngineClient,
) -> None:
    ready, coming = FakeEngine("a"), FakeEngine("b", hangs=True)
    async with serving(ready, coming) as (first, second):
        world = World(models=[replace(a_model(first), starting_pods=(second,))], timing={"rest": 0.0})
        async with running(world, engines) as loop, asyncio.timeout(60):
            while ready.puts < 2:
                loop.look_now(key("m"))
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
        world = World([replace(a_model(*pods, status=status), relaunching=RelaunchPolicy(actuation))])
        with world.loop(engines) as loop:
            await loop.resume()
            await loop.written()
    said = world.condition("MetricsAvailable")
    assert said is not None
    assert said["message"] == "an earlier process saw this"
