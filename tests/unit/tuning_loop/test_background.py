"""No tick waits for the API server; what it leaves to be written is written in the background."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from outrider.api.launch import Launch, LaunchOrder
from outrider.api.reasons import EventReason
from outrider.api.status import SpeculationState, SpeculationStatus
from outrider.api.tuning import TuningMode
from outrider.cluster.errors import Unavailable
from outrider.controller.tune.background_writes import MAX_EVENTS, Turns, WriteQueue
from outrider.controller.tune.events import Event
from outrider.controller.tune.report import TunerReport
from outrider.controller.tune.timing import numbers_interval
from outrider.engine.client import EngineClient
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import NOW, OUTAGE, World, a_model, a_store, step
from tests.unit.tuning_loop.learned import CHOSEN, MODEL, knowledge


async def until(world: World, *calls: tuple[str, str]) -> None:
    """These calls have begun, in whatever order."""
    async with asyncio.timeout(60):
        while not set(calls) <= set(world.calls):
            await asyncio.sleep(0)


def a_queue(world: World, turns: Turns | None = None) -> WriteQueue:
    return WriteQueue(
        world,
        a_store(world),
        turns=turns or Turns(),
        timeout_seconds=60,
        numbers_interval=lambda: numbers_interval(3),
    )


@pytest.mark.parametrize("call", ["apply_status", "event", "read", "write"])
async def test_a_call_that_hangs_for_one_model_keeps_no_other_from_its_pushes(
    engines: EngineClient, call: str
) -> None:
    stuck, healthy = FakeEngine("stuck"), FakeEngine("healthy")
    async with serving(stuck, healthy) as (first, second), asyncio.timeout(60):
        models = [a_model(first, name="stuck"), a_model(second, name="healthy")]
        world = World(models, outage=OUTAGE, timing={"state_read": 0.05})
        world.hang(call, "stuck")
        with world.loop(engines) as loop:
            for tick in range(3):
                await loop.tick()
                await until(world, (call, "stuck"))
                assert healthy.puts == tick + 1
    assert stuck.puts == (0 if call == "read" else 3)


async def test_an_order_that_hangs_comes_after_the_push_and_is_given_up(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods, asyncio.timeout(60):
        world = World(
            [replace(a_model(*pods), stored_order=LaunchOrder(canary=Launch(drafter=False)))],
            timing={"order": 0.02},
        )
        world.hang("order", "m")
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert world.calls.count(("order", "m")) == 2
    assert engine.puts == 2
    assert world.condition("ActuationConverged") is not None


async def test_one_status_of_a_model_is_written_at_a_time_and_then_the_latest(engines: EngineClient) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)])
        written = world.hang("apply_status", "m")
        with world.loop(engines) as loop:
            for k in (0, 1, 3, 5):
                world.change(static=Schedule.constant(k))
                await loop.tick()
                await until(world, ("apply_status", "m"))
            under_way = world.calls.count(("apply_status", "m"))
            written.set()
            await loop.written()
    assert under_way == 1
    tables = [part["speculation"]["scheduleSummary"] for part in world.statuses]  # type: ignore[index]
    assert tables == ["*:0", "*:5"]


@pytest.mark.parametrize(("models", "seconds"), [(1, 30.0), (150, 30.0), (1000, 200.0)])
def test_numbers_of_many_models_are_written_less_often(models: int, seconds: float) -> None:
    assert numbers_interval(models) == seconds


async def test_numbers_that_drift_are_written_every_30_seconds_and_another_table_at_once() -> None:
    world = World([MODEL])
    writes = a_queue(world)

    async def written(*, at: float, rate: float, table: str = "*:3") -> bool:
        before = len(world.statuses)
        said = SpeculationStatus(state=SpeculationState.ACTIVE, schedule_summary=table, acceptance_rate=rate)
        writes.report(MODEL, TunerReport(said), now=NOW + at)
        await writes.emptied()
        return len(world.statuses) > before

    assert await written(at=0.0, rate=0.5)
    assert not await written(at=29.9, rate=0.6)
    assert await written(at=30.0, rate=0.7)
    assert await written(at=31.0, rate=0.7, table="*:1")


async def test_a_model_whose_turn_to_write_has_not_come_writes_its_latest_report_alone() -> None:
    other = replace(MODEL, name="other", uid="uid-other")
    world, turns = World([MODEL, other]), Turns(1, longest=60)
    first, second = a_queue(world, turns), a_queue(world, turns)
    written = world.hang("apply_status", MODEL.name)
    first.report(MODEL, TunerReport(SpeculationStatus(state=SpeculationState.ACTIVE)), now=NOW)
    await until(world, ("apply_status", MODEL.name))
    for table in ("*:1", "*:2"):
        said = SpeculationStatus(state=SpeculationState.ACTIVE, schedule_summary=table)
        second.report(other, TunerReport(said), now=NOW)
        await asyncio.sleep(0)
    assert ("apply_status", "other") not in world.calls
    written.set()
    await first.emptied()
    await second.emptied()
    assert world.calls.count(("apply_status", "other")) == 1
    assert world.statuses[-1]["speculation"]["scheduleSummary"] == "*:2"  # type: ignore[index]


async def test_a_write_that_hangs_gives_its_turn_to_another_model() -> None:
    other = replace(MODEL, name="other", uid="uid-other")
    world, turns = World([MODEL, other]), Turns(1, longest=0.01)
    first, second = a_queue(world, turns), a_queue(world, turns)
    written = world.hang("apply_status", MODEL.name)
    for queue, model in ((first, MODEL), (second, other)):
        queue.report(model, TunerReport(SpeculationStatus(state=SpeculationState.ACTIVE)), now=NOW)
    await second.emptied()
    assert len(world.statuses) == 1
    written.set()
    await first.emptied()
    assert len(world.statuses) == 2


async def test_events_keep_their_order_while_they_wait(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)])
        written = world.hang("event", "m")
        with world.loop(engines) as loop:
            for answer in ((500, ""), None, (500, ""), None):
                engine.answer = answer
                await loop.tick()
            written.set()
            await loop.written()
    failed, recovered = EventReason.ACTUATION_FAILED, EventReason.ACTUATION_RECOVERED
    assert [reason for reason, _ in world.events] == [failed, recovered, failed, recovered]


async def test_a_write_that_hangs_is_given_up_and_the_next_tick_tries_again(
    engines: EngineClient, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(FakeEngine()) as pods, asyncio.timeout(60):
        world = World([a_model(*pods)], outage=OUTAGE, timing={"write": 0.5})
        world.hang("apply_status", "m")
        with world.loop(engines) as loop:
            await step(loop)
            others = (world.events, world.writes)
            world.hung.clear()
            await step(loop)
    assert others == ([(EventReason.METRICS_LOST, "Warning")], 1)
    assert len(world.statuses) == 1
    assert "status of default/m was not written within 0.5 s" in caplog.text


@pytest.mark.parametrize(
    ("error", "words"),
    [(RuntimeError("a defect"), "RuntimeError: a defect"), (Unavailable("503"), "not written: ")],
)
async def test_a_status_that_cannot_be_written_stops_neither_events_nor_state_and_the_log_says_why(
    engines: EngineClient, caplog: pytest.LogCaptureFixture, error: Exception, words: str
) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)], outage=OUTAGE, defects={("apply_status", "m"): error})
        with world.loop(engines) as loop:
            await step(loop)
    assert world.events == [(EventReason.METRICS_LOST, "Warning")]
    assert world.writes == 1
    assert "status of default/m was not written" in caplog.text
    assert words in caplog.text


async def test_of_many_events_that_wait_the_oldest_are_lost() -> None:
    world = World([MODEL])
    box = a_queue(world)
    box.emit(MODEL, [Event(EventReason.RETUNED, str(number)) for number in range(100)])
    await box.emptied()
    assert world.notes == [str(number) for number in range(100 - MAX_EVENTS, 100)]


async def test_at_the_end_of_the_loop_a_hanging_write_is_left_and_what_was_learnt_is_kept(
    engines: EngineClient,
) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)], timing={"stop": 3600.0, "write": 3600.0})
        world.hang("apply_status", "m")
        with world.loop(engines) as loop:
            running = asyncio.create_task(loop.run())
            await until(world, ("apply_status", "m"))
            running.cancel()
            async with asyncio.timeout(60):
                with suppress(asyncio.CancelledError):
                    await running
    assert world.statuses == []
    assert world.kept.keys() == {"uid-of-m"}


async def test_of_a_model_that_is_gone_nothing_more_is_written(engines: EngineClient) -> None:
    world = World([a_model(mode=TuningMode.OFF)])
    written = world.hang("apply_status", "m")
    with world.loop(engines) as loop:
        await loop.tick()
        await until(world, ("apply_status", "m"))
        world.models = []
        await loop.tick()
        written.set()
        await asyncio.sleep(0)
    assert world.statuses == []


async def test_a_model_whose_state_comes_late_starts_late_and_goes_on_with_it(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)], kept={MODEL.uid: knowledge()})
        read = world.hang("read", "m")
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
            silent = engine.puts
            read.set()
            await asyncio.sleep(0)
            await step(loop)
    assert (silent, world.calls.count(("read", "m"))) == (0, 1)
    assert engine.schedule == CHOSEN.to_wire()


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_model_whose_state_cannot_be_read_while_a_lease_lasts_starts_afresh_and_says_so(
    engines: EngineClient, *, hangs: bool
) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)], kept={MODEL.uid: knowledge()}, state_error=Unavailable("503"))
        if hangs:
            world.hang("read", "m")
        with world.loop(engines) as loop:
            await step(loop)
            world.now += world.lease - 1
            await step(loop)
            silent = engine.puts
            world.now += 1
            await step(loop)
    assert (silent, engine.puts) == (0, 1)
    assert engine.schedule == MODEL.static.to_wire()
    assert world.events[0] == (EventReason.STATE_IGNORED, "Warning")
    assert "could not be read for 60 s" in world.notes[0]


async def test_a_state_that_the_reader_stumbles_over_is_told_and_the_model_starts_afresh(
    engines: EngineClient,
) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)], defects={("read", "m"): RecursionError()})
        with world.loop(engines) as loop:
            await step(loop)
    assert engine.schedule == MODEL.static.to_wire()
    assert world.events[0] == (EventReason.STATE_IGNORED, "Warning")
