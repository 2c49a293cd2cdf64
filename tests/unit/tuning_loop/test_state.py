"""The tuner's state survives a restart; an unusable one is reported and left."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from outrider.api.launch import Launch, LaunchOrder
from outrider.api.reasons import EventReason
from outrider.api.tuning import TuningMode
from outrider.cluster.errors import NameTaken, Unavailable
from outrider.controller.tune.snapshot import TunerSnapshot, read_estimates, read_snapshot, write_snapshot
from outrider.controller.tune.step_time_profiles import LaunchProfile
from outrider.engine.client import EngineClient
from outrider.tuning.decision import BinEstimates, Estimate
from outrider.tuning.estimate.step_time_profile import MapCell, StepTimeProfile
from outrider.tuning.relaunch.state import RelaunchState
from outrider.tuning.state import TunerState
from outrider.tuning.stored import MAX_BYTES
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import NOW, World, a_model, a_status, step
from tests.unit.tuning_loop.learned import CHOSEN, MODEL, knowledge


async def table_after_a_restart(engines: EngineClient, world: World) -> list[dict[str, int]]:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world.models = [replace(model, pods=tuple(pods)) for model in world.models]
        with world.loop(engines) as loop:
            await step(loop)
    return engine.schedule


def test_knowledge_is_read_back() -> None:
    estimates = {"7-12": BinEstimates("7-12", 7, 12, 8.0, True, (Estimate(3, 566.0, 9.0, 4.0),))}
    state = replace(TunerState.start(MODEL.static, MODEL.policy), schedule=CHOSEN)
    known = TunerSnapshot(TuningMode.AUTO, MODEL.static, state, estimates)
    text = write_snapshot(known)
    assert read_snapshot(text, MODEL) == known
    assert read_estimates(text) == estimates


def test_a_map_of_step_times_is_read_back_and_one_that_cannot_be_read_costs_nothing_else() -> None:
    cells = StepTimeProfile((MapCell(8, 3, 56.0, 0.0123, 0.02),))
    state = TunerState.start(MODEL.static, MODEL.policy)
    known = TunerSnapshot(TuningMode.AUTO, MODEL.static, state, {}, profile=LaunchProfile("r1", "m-1", cells))
    text = write_snapshot(known)
    assert read_snapshot(text, MODEL) == known
    spoilt = text.replace('"cells":', '"other":')
    assert spoilt != text
    assert read_snapshot(spoilt, MODEL) == replace(known, profile=None)


@pytest.mark.parametrize("launch", [Launch(drafter=False), Launch(schedule=CHOSEN)], ids=str)
def test_what_is_remembered_of_relaunches_is_read_back(launch: Launch) -> None:
    state = TunerState.start(Schedule.constant(1), MODEL.policy)
    remembered = RelaunchState().adopting(LaunchOrder(launch), now=5.0)
    known = TunerSnapshot(TuningMode.AUTO, MODEL.static, state, {}, relaunches=remembered)
    assert read_snapshot(write_snapshot(known), MODEL) == known


def test_tables_are_stored_under_the_name_that_earlier_releases_read() -> None:
    state = TunerState.start(CHOSEN, MODEL.policy)
    remembered = RelaunchState().adopting(LaunchOrder(Launch(schedule=CHOSEN)), now=5.0)
    wire = json.loads(
        write_snapshot(TunerSnapshot(TuningMode.AUTO, CHOSEN, state, {}, relaunches=remembered))
    )
    tables = (wire["state"]["state"]["static"], wire["relaunches"]["order"]["launch"]["schedule"])
    assert tables == ({"tiers": [{"max_batch_size": None, "num_speculative_tokens": 5}]},) * 2


def test_knowledge_from_before_there_were_relaunches_is_still_read() -> None:
    wire = json.loads(knowledge())
    del wire["relaunches"]
    known = read_snapshot(json.dumps(wire), MODEL)
    assert known is not None
    assert known.relaunches == RelaunchState()


async def test_a_restart_goes_on_with_the_table_that_was_chosen(engines: EngineClient) -> None:
    world = World([MODEL], kept={MODEL.uid: knowledge()}, term=2)
    assert await table_after_a_restart(engines, world) == CHOSEN.to_wire()
    assert world.events == []


async def test_two_processes_in_a_row_push_the_same_table_and_keep_the_same_state(
    engines: EngineClient,
) -> None:
    world = World([MODEL], kept={MODEL.uid: knowledge()})
    first = await table_after_a_restart(engines, world)
    kept = json.loads(world.kept[MODEL.uid])
    world.now, world.term = NOW + 300, 2
    assert await table_after_a_restart(engines, world) == first
    assert (
        json.loads(world.kept[MODEL.uid])["state"]["state"]["schedule"] == kept["state"]["state"]["schedule"]
    )


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"mode":"Auto","static":[],"state":{}}', "null", '{"mode":"Never"}', "\x00"]
)
async def test_a_corrupt_state_is_told_and_the_reported_table_goes_on(
    engines: EngineClient, text: str
) -> None:
    text = text.replace('"static":[]', f'"static":{json.dumps(MODEL.static.to_wire())}')
    model = replace(MODEL, status=a_status(k=5, generation=1))
    world = World([model], kept={MODEL.uid: text})
    assert await table_after_a_restart(engines, world) == CHOSEN.to_wire()
    assert world.events == [(EventReason.STATE_IGNORED, "Warning")]


async def test_a_state_of_another_version_is_told_and_ignored(engines: EngineClient) -> None:
    wire = json.loads(knowledge())
    wire["state"]["version"] = 99
    world = World([MODEL], kept={MODEL.uid: json.dumps(wire)})
    assert await table_after_a_restart(engines, world) == MODEL.static.to_wire()
    assert world.events == [(EventReason.STATE_IGNORED, "Warning")]


async def test_a_state_for_other_candidates_is_told_and_ignored(engines: EngineClient) -> None:
    other = a_model(candidates=(0, 1, 3))
    world = World([other], kept={other.uid: knowledge()})
    assert await table_after_a_restart(engines, world) == other.static.to_wire()
    assert world.events == [(EventReason.STATE_IGNORED, "Warning")]


async def test_a_state_in_a_foreign_object_is_told_and_the_object_is_left_alone(
    engines: EngineClient,
) -> None:
    world = World([MODEL], state_error=NameTaken("ConfigMap default/m-tuner exists"))
    assert await table_after_a_restart(engines, world) == MODEL.static.to_wire()
    assert world.events == [(EventReason.STATE_IGNORED, "Warning"), (EventReason.STATE_NOT_SAVED, "Warning")]
    assert world.kept == {}


async def test_a_static_table_that_the_user_changed_meanwhile_wins_quietly(engines: EngineClient) -> None:
    model = replace(MODEL, static=Schedule.constant(1))
    world = World([model], kept={MODEL.uid: knowledge()})
    assert await table_after_a_restart(engines, world) == [{"numSpeculativeTokens": 1}]
    assert world.events == []


async def test_what_was_learnt_in_observe_is_not_carried_into_auto(engines: EngineClient) -> None:
    world = World([MODEL], kept={MODEL.uid: knowledge(mode=TuningMode.OBSERVE)})
    assert await table_after_a_restart(engines, world) == MODEL.static.to_wire()


async def test_while_the_state_cannot_be_read_nothing_is_pushed_and_nothing_is_lost(
    engines: EngineClient,
) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)], kept={MODEL.uid: knowledge()}, state_error=Unavailable("503"))
        with world.loop(engines) as loop:
            await step(loop)
            silent = engine.puts
            world.state_error = None
            await step(loop)
    assert silent == 0
    assert engine.schedule == CHOSEN.to_wire()


async def test_state_is_written_at_most_every_half_minute(engines: EngineClient) -> None:
    world = World([MODEL])
    with world.loop(engines) as loop:
        for _ in range(7):
            await step(loop)
            world.now += 10
    assert world.writes == 3


async def test_state_is_written_on_a_clean_stop(engines: EngineClient) -> None:
    world = World([MODEL])
    with world.loop(engines) as loop:
        running = asyncio.create_task(loop.run())
        while world.writes == 0:
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert world.writes == 2


async def test_a_state_that_cannot_be_written_does_not_hold_up_tuning(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            world.state_error = Unavailable("503")
            world.now += 31
            await step(loop)
    assert engine.puts == 2
    assert EventReason.STATE_NOT_SAVED not in [reason for reason, _ in world.events]


async def test_a_state_that_was_not_written_is_written_at_the_next_tick(engines: EngineClient) -> None:
    world = World([MODEL], state_error=None)
    with world.loop(engines) as loop:
        await step(loop)
        world.kept.clear()
        world.now += 31
        world.state_error = Unavailable("503")
        await step(loop)
        world.state_error = None
        world.now += 10
        await step(loop)
    assert world.kept.keys() == {MODEL.uid}


async def test_tuning_off_keeps_nothing(engines: EngineClient) -> None:
    world = World([a_model(mode=TuningMode.OFF)])
    with world.loop(engines) as loop:
        await step(loop)
    assert world.kept == {}


async def test_a_state_that_is_too_large_is_told_once_and_not_written(
    engines: EngineClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "outrider.controller.tune.tuner_store.write_snapshot", lambda _: "x" * (MAX_BYTES + 1)
    )
    world = World([MODEL])
    with world.loop(engines) as loop:
        for _ in range(8):
            await step(loop)
            world.now += 10
    assert world.kept == {}
    assert world.events == [(EventReason.STATE_NOT_SAVED, "Warning")]
