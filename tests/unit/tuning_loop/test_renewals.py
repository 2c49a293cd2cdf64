"""Leases are renewed at a third of their length, and by a leader that ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from outrider.api.tuning import TuningMode
from outrider.controller.stored import Key
from outrider.controller.tune.tuning_loop import TuningLoop
from outrider.engine.client import EngineClient
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import World, a_model, step

RENEWALS = {"renewals": 3.0}


async def ticks(world: World, loop: TuningLoop, count: int, *, seconds: float = 10.0) -> None:
    """Ticks at their usual pace."""
    for _ in range(count):
        await step(loop)
        world.now += seconds


async def until(engine: FakeEngine, puts: int) -> None:
    async with asyncio.timeout(30):
        while engine.puts < puts:
            await asyncio.sleep(0.001)


async def until_confirmed(world: World, count: int) -> None:
    """Only a confirmed push is renewed. An engine counts it before its answer is read."""
    async with asyncio.timeout(30):
        while world.own_metric("outrider_operator_pushes_total", outcome="confirmed") != count:
            await asyncio.sleep(0.001)


async def test_a_lease_of_60_s_is_renewed_every_20_s(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)], timing=RENEWALS)
        with world.loop(engines) as loop:
            await ticks(world, loop, 7)
    assert (engine.puts, engine.epoch) == (4, 1), "after 0, 20, 40 and 60 s"


async def test_a_lease_of_two_ticks_is_renewed_at_each(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)], lease=20.0, timing=RENEWALS)
        with world.loop(engines) as loop:
            await ticks(world, loop, 4)
    assert engine.puts == 4


async def test_a_pod_that_was_not_asked_counts_by_its_last_answer(engines: EngineClient) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)], timing=RENEWALS)
        with world.loop(engines) as loop:
            await ticks(world, loop, 2)
            pushes = world.own_metric("outrider_operator_pushes_total", outcome="confirmed")
    assert world.speculation["appliedReplicas"] == 1
    assert pushes == 1


async def test_another_schedule_is_pushed_at_the_next_tick(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)], timing=RENEWALS)
        with world.loop(engines) as loop:
            await ticks(world, loop, 1)
            world.change(static=Schedule.constant(0))
            await ticks(world, loop, 1)
    assert engine.schedule == [{"numSpeculativeTokens": 0}]


async def test_a_pod_that_did_not_confirm_is_asked_again_at_the_next_tick(engines: EngineClient) -> None:
    willing, busy = FakeEngine("a"), FakeEngine("b", answer=(500, "busy"))
    async with serving(willing, busy) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)], timing=RENEWALS)
        with world.loop(engines) as loop:
            await ticks(world, loop, 1)
            busy.answer = None
            await ticks(world, loop, 1)
    assert (willing.puts, busy.puts) == (1, 1)
    assert world.speculation["appliedReplicas"] == 2


async def test_a_new_pod_of_the_same_name_is_asked(engines: EngineClient) -> None:
    """As in a StatefulSet."""
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)], timing=RENEWALS)
        with world.loop(engines) as loop:
            await ticks(world, loop, 1)
            another = replace(pods[0], address=replace(pods[0].address, pod_uid="uid-of-another"))
            world.change(pods=(another,))
            await ticks(world, loop, 1)
    assert world.speculation["appliedReplicas"] == 0, "the engine refuses signatures for another pod"


async def test_an_engine_that_started_again_gets_its_schedule_as_soon_as_it_is_ready(
    engines: EngineClient,
) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        model = a_model(*pods, mode=TuningMode.OFF)
        world = World([model], timing={**RENEWALS, "rest": 0.001, "early_tick": 0.0}, interval=3600.0)
        world.lease = 36_000.0
        with world.loop(engines) as loop:
            running = asyncio.create_task(loop.run())
            await until(engine, 1)
            engine.restart()
            loop.look_now(Key(model.namespace, model.name))
            await until(engine, 2)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
    assert engine.source == "Pushed"


async def test_a_lease_that_no_tick_renews_in_time_is_renewed_beside_it(engines: EngineClient) -> None:
    """A tick of very many models takes longer than its interval."""
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)], timing={**RENEWALS, "rest": 0.001}, interval=0.1)
        with world.loop(engines) as loop:
            running = asyncio.create_task(loop.run())
            await until_confirmed(world, 1)
            world.source_hangs = True
            fetches = len(world.lookbacks)
            async with asyncio.timeout(30):
                while len(world.lookbacks) == fetches:
                    await asyncio.sleep(0.001)
            before = engine.puts
            world.now += 31
            await until(engine, before + 1)
            assert len(world.lookbacks) == fetches + 1, "no tick was able to renew it"
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
    assert engine.epoch == 1


async def test_a_late_renewal_counts_for_the_next_tick(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        model = a_model(*pods, mode=TuningMode.OFF)
        world = World([model], timing=RENEWALS)
        with world.loop(engines) as loop:
            await ticks(world, loop, 1, seconds=31)
            await loop.renew(older=30)
            await ticks(world, loop, 1)
    assert engine.puts == 2


async def test_a_leader_that_ends_renews_every_lease(engines: EngineClient) -> None:
    first, second = FakeEngine("a"), FakeEngine("b")
    async with serving(first, second) as pods:
        models = [a_model(pods[0], name="a"), a_model(pods[1], name="b")]
        world = World(models, timing={**RENEWALS, "rest": 0.001}, interval=3600.0, lease=36_000.0)
        with world.loop(engines) as loop:
            running = asyncio.create_task(loop.run())
            await until_confirmed(world, 2)
            before = (first.puts, second.puts)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
    assert (first.puts, second.puts) == (before[0] + 1, before[1] + 1)


async def test_a_leader_that_ends_does_not_wait_for_a_silent_engine(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)], timing={**RENEWALS, "stop": 0.05}, interval=3600.0, lease=36_000.0)
        with world.loop(engines) as loop:
            running = asyncio.create_task(loop.run())
            await until(engine, 1)
            engine.hangs = True
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            assert running.done()
            engine.hangs = False
