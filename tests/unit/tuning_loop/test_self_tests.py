"""A K that broke a drafter before traffic is never used."""

from __future__ import annotations

import json

from outrider.controller.tune.engine_tables import PushedTables, ScheduleVersions
from outrider.engine.client import EngineClient
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import NOW, World, a_model, step

BREAKS_AT_5 = frozenset({5})
K3 = [{"numSpeculativeTokens": 3}]


async def test_a_k_that_failed_on_one_pod_is_taken_from_the_table_of_all(engines: EngineClient) -> None:
    broken, sound = FakeEngine("a", failed=BREAKS_AT_5), FakeEngine("b")
    async with serving(broken, sound) as pods:
        world = World([a_model(*pods, static=Schedule.constant(5))])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert broken.schedule == sound.schedule == K3
    found = world.condition("ActuationConverged")
    assert found is not None
    assert found["status"] == "True"
    assert "a: K=5 failed the self-test" in found["message"]


async def test_it_comes_back_with_a_pod_that_passes(engines: EngineClient) -> None:
    broken, sound = FakeEngine("a", failed=BREAKS_AT_5), FakeEngine("b")
    async with serving(broken, sound) as (one, other):
        world = World([a_model(one, static=Schedule.constant(5))])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
            world.change(pods=(other,))
            world.now += 31
            await step(loop)
            await step(loop)
    assert sound.schedule == [{"numSpeculativeTokens": 5}]


async def test_a_restart_remembers_it_and_what_was_learnt(engines: EngineClient) -> None:
    engine = FakeEngine(failed=BREAKS_AT_5)
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            for _ in range(4):
                await step(loop)
                world.now += 31
        kept = world.kept["uid-of-m"]
        world.events.clear()
        world.term = 2
        with world.loop(engines) as loop:
            await step(loop)
    assert json.loads(kept)["failedK"] == [5]
    assert [reason for reason, _ in world.events if reason.startswith("TunerState")] == []
    assert world.speculation["scheduleSummary"] == "*:3"


async def test_what_an_earlier_process_knew_of_it_holds_until_each_pod_has_told(
    engines: EngineClient,
) -> None:
    async with serving(FakeEngine()) as pods:
        tables = PushedTables(
            engines, ScheduleVersions(), uid="uid", lease=60.0, failed_k=BREAKS_AT_5, clock=lambda: NOW
        )
        before = tables.failed_k
        await tables.push(pods, Schedule.constant(3), term=1)
    assert (before, tables.failed_k) == (BREAKS_AT_5, frozenset())


async def test_when_every_k_failed_the_engine_has_the_last_word(engines: EngineClient) -> None:
    engine = FakeEngine(failed=frozenset({0, 1, 3, 5}))
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    found = world.condition("ActuationConverged")
    assert found is not None
    assert found["reason"] == "PartiallyApplied"
