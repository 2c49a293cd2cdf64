"""The tuner forgets when a person asks for it, once for each request, and at nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from outrider.api.annotations import Instructions
from outrider.api.reasons import EventReason
from outrider.api.status import Status
from outrider.api.tuning import TuningMode
from outrider.cluster.errors import Unavailable
from outrider.controller.tune.tuning_loop import TuningLoop
from outrider.engine.client import EngineClient
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import World, a_model, an_override, step
from tests.unit.tuning_loop.learned import CHOSEN, MODEL, knowledge

LEARNT, STATIC = CHOSEN.to_wire(), MODEL.static.to_wire()
FORGET = Instructions(forget="now")
FORGOTTEN = (EventReason.TUNER_RESET, "Normal")


@dataclass
class Scene:
    world: World
    engine: FakeEngine
    loop: TuningLoop

    async def tick(self, seconds: float = 10) -> list[dict[str, int]]:
        """The table in force after another tick."""
        self.world.now += seconds
        await step(self.loop)
        return self.engine.schedule

    @property
    def told(self) -> list[tuple[EventReason, str]]:
        return [event for event in self.world.events if event[0] is not EventReason.METRICS_LOST]

    @property
    def kept(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.world.kept[MODEL.uid])
        return found


@asynccontextmanager
async def a_process(
    engines: EngineClient, kept: str | None, instructions: Instructions | None = None
) -> AsyncIterator[Scene]:
    """After its first tick."""
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World(
            [a_model(*pods, instructions=instructions)], kept={} if kept is None else {MODEL.uid: kept}
        )
        with world.loop(engines) as loop:
            scene = Scene(world, engine, loop)
            await scene.tick(0)
            yield scene


async def test_a_request_brings_the_static_table_back_and_is_told_as_event_and_decision(
    engines: EngineClient,
) -> None:
    async with a_process(engines, knowledge()) as scene:
        assert scene.engine.schedule == LEARNT
        scene.world.change(instructions=FORGET)
        assert await scene.tick() == STATIC
    sentence = (
        "Outrider reset the tuner, because the annotation outrider.dev/reset-tuner is 'now'."
        " Tuning begins with the static schedule *:3."
    )
    assert scene.told == [FORGOTTEN]
    assert sentence in scene.world.notes
    (record,) = scene.world.decisions
    assert (record["from"], record["to"]) == ("*:5", "*:3")
    assert (record["reason"], record["message"]) == ("TunerReset", sentence)


async def test_a_request_is_kept_with_what_is_learnt_since(engines: EngineClient) -> None:
    async with a_process(engines, knowledge()) as scene:
        assert scene.kept["forgot"] is None
        scene.world.change(instructions=FORGET)
        await scene.tick()
        assert scene.kept["forgot"] == "now"


async def test_a_request_acts_once_and_another_one_again(engines: EngineClient) -> None:
    async with a_process(engines, knowledge()) as scene:
        for instructions in (FORGET, FORGET, Instructions(), FORGET, Instructions(forget="again")):
            scene.world.change(instructions=instructions)
            await scene.tick()
    assert scene.told == [FORGOTTEN, FORGOTTEN]


async def test_a_restart_does_not_repeat_a_request_that_was_honoured(engines: EngineClient) -> None:
    async with a_process(engines, knowledge()) as first:
        first.world.change(instructions=FORGET)
        await first.tick()
    async with a_process(engines, first.world.kept[MODEL.uid], FORGET) as second:
        assert second.engine.schedule == STATIC
    assert second.told == []


async def test_a_request_that_was_honoured_and_not_kept_is_honoured_by_the_next_process(
    engines: EngineClient,
) -> None:
    """A crash between the two writes: the status has it, the ConfigMap does not."""
    async with a_process(engines, knowledge()) as first:
        first.world.change(instructions=FORGET)
        first.world.state_error = Unavailable("503")
        await first.tick()
    assert first.told == [FORGOTTEN]
    async with a_process(engines, first.world.kept[MODEL.uid], FORGET) as second:
        assert second.engine.schedule == STATIC
        assert second.kept["forgot"] == "now"
    assert second.told == [FORGOTTEN]


async def test_a_new_model_that_comes_with_a_request_has_nothing_to_forget(engines: EngineClient) -> None:
    async with a_process(engines, None, FORGET) as scene:
        await scene.tick()
        assert scene.kept["forgot"] == "now"
    assert scene.told == []


async def test_under_a_pause_the_table_is_held_and_the_static_one_follows(engines: EngineClient) -> None:
    paused = Instructions(paused=True, forget="now")
    async with a_process(engines, knowledge()) as scene:
        scene.world.change(instructions=paused)
        assert await scene.tick() == LEARNT
        assert await scene.tick() == LEARNT
        scene.world.change(instructions=FORGET)
        assert await scene.tick() == STATIC
    assert [event for event in scene.told if event == FORGOTTEN] == [FORGOTTEN]


async def test_under_an_override_the_override_rules_and_the_static_table_follows(
    engines: EngineClient,
) -> None:
    override = an_override(1, seconds=15)
    async with a_process(engines, knowledge()) as scene:
        scene.world.change(instructions=Instructions(override=override.override, forget="now"))
        assert await scene.tick() == [{"numSpeculativeTokens": 1}]
        assert await scene.tick() == STATIC
    assert FORGOTTEN in scene.told


async def test_tuning_off_has_nothing_to_forget(engines: EngineClient) -> None:
    async with a_process(engines, knowledge(mode=TuningMode.OFF)) as scene:
        scene.world.change(mode=TuningMode.OFF, instructions=FORGET)
        await scene.tick()
    assert scene.told == []


async def test_a_deleted_state_is_forgotten_and_never_written_back(engines: EngineClient) -> None:
    async with a_process(engines, knowledge()) as scene:
        scene.world.delete_state()
        assert await scene.tick(31) == LEARNT  # the write finds out
        assert scene.world.kept == {}
        assert await scene.tick() == STATIC
        assert scene.kept["state"]["state"]["schedule"]["tiers"]  # type: ignore[index]
    assert scene.told == [FORGOTTEN]
    assert "the ConfigMap m-tuner was deleted" in scene.world.notes[-1]


async def test_what_a_tick_learnt_before_it_heard_of_a_deletion_is_not_written_after_it(
    engines: EngineClient,
) -> None:
    async with a_process(engines, knowledge()) as scene:
        world = scene.world
        world.delete_state()
        api_server, writes = world.hang("write", "m"), world.calls.count(("write", "m"))
        world.now += 31
        await scene.loop.tick()
        while world.calls.count(("write", "m")) == writes:
            await asyncio.sleep(0.01)
        await scene.loop.tick()  # its report waits behind the write that will find out
        api_server.set()
        await scene.loop.written()
        assert world.kept == {}
        assert await scene.tick() == STATIC


async def test_a_deletion_found_after_a_request_to_reset_causes_no_second_reset(
    engines: EngineClient,
) -> None:
    async with a_process(engines, knowledge()) as scene:
        world = scene.world
        world.delete_state()
        api_server, writes = world.hang("write", "m"), world.calls.count(("write", "m"))
        world.now += 31
        await scene.loop.tick()
        while world.calls.count(("write", "m")) == writes:
            await asyncio.sleep(0.01)
        world.change(instructions=FORGET)
        await scene.loop.tick()
        api_server.set()
        await scene.loop.written()
        assert await scene.tick() == STATIC
        assert scene.kept["forgot"] == "now"
    assert scene.told == [FORGOTTEN]


async def test_a_state_that_was_deleted_before_a_clean_stop_stays_deleted(engines: EngineClient) -> None:
    async with a_process(engines, knowledge()) as scene:
        scene.world.delete_state()
        running = asyncio.create_task(scene.loop.run())
        while scene.world.fleet_reads < 2:
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert (scene.world.deleted, scene.world.kept) == (set(), {})


@pytest.mark.parametrize("kept", [None, knowledge()])
async def test_a_write_that_fails_is_no_deletion(engines: EngineClient, kept: str | None) -> None:
    async with a_process(engines, kept) as scene:
        table = scene.engine.schedule
        scene.world.state_error = Unavailable("503")
        await scene.tick(31)
        scene.world.state_error = None
        assert await scene.tick() == table
    assert scene.told == []


async def test_what_rested_on_the_measurements_goes_and_the_decisions_stay(engines: EngineClient) -> None:
    effective = {
        "type": "SpeculationEffective",
        "status": "True",
        "reason": "Faster",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    speedup = {"ratio": "1.70", "reference": "Probe", "measuredAt": "2026-01-01T00:00:00Z"}
    earlier = {"time": "2026-01-01T00:00:00Z", "from": "*:3", "to": "*:5", "reason": "BetterK"}
    status = {
        "conditions": [effective],
        "speculation": {"state": "Active", "speedup": speedup},
        "decisions": [earlier],
    }
    async with serving(FakeEngine()) as pods:
        model = a_model(*pods, status=Status.model_validate(status), instructions=FORGET)
        world = World([model], kept={MODEL.uid: knowledge()})
        with world.loop(engines) as loop:
            await step(loop)
    assert "speedup" not in world.speculation
    assert world.condition("SpeculationEffective") is None
    assert [record["reason"] for record in world.decisions] == ["TunerReset", "BetterK"]
