"""A person's table, a pause, and the rest after a change of replicas come before the tuner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outrider.api.annotations import Instructions
from outrider.api.reasons import EventReason
from outrider.api.tuning import TuningMode
from outrider.controller.tune import model_tuner
from outrider.engine.client import EngineClient
from outrider.tuning.decision import Decision
from outrider.tuning.tick_context import TickContext
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import World, a_model, a_status, an_override, step

PAUSED = Instructions(paused=True)
K1 = [{"numSpeculativeTokens": 1}]
K3 = [{"numSpeculativeTokens": 3}]


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> list[Decision]:
    """What the law was asked for."""
    made: list[Decision] = []
    decide = model_tuner.decide  # type: ignore[attr-defined]

    def decided(context: TickContext) -> Decision:
        made.append(decide(context))
        return made[-1]

    monkeypatch.setattr(model_tuner, "decide", decided)
    return made


def active(world: World) -> tuple[str, str] | None:
    found = world.condition("TuningActive")
    return None if found is None else (found["status"], found["reason"])


def message(world: World) -> str:
    return (world.condition("TuningActive") or {"message": ""})["message"]


def told(world: World) -> list[tuple[EventReason, str]]:
    """Events, but for those about the metrics that these tests have none of."""
    return [event for event in world.events if event[0] is not EventReason.METRICS_LOST]


async def test_pods_that_returned_since_the_spec_failed_get_their_own_table_and_no_decision(
    engines: EngineClient, decisions: list[Decision]
) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([replace(a_model(*pods), returned_table=Schedule.constant(1))])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert decisions == []
    assert engine.schedule == K1
    assert active(world) == ("False", "RolledBack")


async def test_a_pause_holds_the_table_in_force_and_renews_it(
    engines: EngineClient, decisions: list[Decision]
) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, status=a_status(k=5, generation=1))])
        with world.loop(engines) as loop:
            await step(loop)
            asked = len(decisions)
            world.change(instructions=PAUSED)
            await step(loop)
            await step(loop)
    assert len(decisions) == asked == 1
    assert (engine.schedule, engine.puts, engine.epoch) == ([{"numSpeculativeTokens": 5}], 3, 1)
    assert active(world) == ("False", "Paused")
    assert told(world) == [(EventReason.PAUSED, "Normal")]


async def test_after_a_pause_decisions_go_on(engines: EngineClient, decisions: list[Decision]) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, instructions=PAUSED)])
        with world.loop(engines) as loop:
            await step(loop)
            world.change(instructions=Instructions())
            await step(loop)
    assert len(decisions) == 1
    assert active(world) == ("True", "Tuning")
    assert told(world) == [(EventReason.PAUSED, "Normal"), (EventReason.RESUMED, "Normal")]


@pytest.mark.parametrize("mode", TuningMode)
async def test_an_override_rules_in_every_mode(engines: EngineClient, mode: TuningMode) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=mode, instructions=an_override(1))])
        with world.loop(engines) as loop:
            await step(loop)
    assert engine.schedule == K1
    assert active(world) == ("False", "Overridden")
    assert world.speculation["scheduleSummary"] == "*:1"


async def test_an_override_ends_by_itself(engines: EngineClient, decisions: list[Decision]) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, instructions=an_override(1, seconds=60))])
        with world.loop(engines) as loop:
            await step(loop)
            overridden = engine.schedule
            world.now += 61
            await step(loop)
    assert (overridden, engine.schedule) == (K1, K3)
    assert len(decisions) == 1
    assert active(world) == ("True", "OverrideExpired")
    assert told(world) == [(EventReason.OVERRIDE_BEGAN, "Normal"), (EventReason.OVERRIDE_ENDED, "Normal")]


async def test_an_override_that_has_expired_already_changes_nothing_and_is_told_of(
    engines: EngineClient, decisions: list[Decision]
) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, instructions=an_override(1, seconds=-1))])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert engine.schedule == K3
    assert len(decisions) == 2
    assert active(world) == ("True", "OverrideExpired")
    assert "Outrider ignores the override *:1, because it ended at" in message(world)
    assert told(world) == [(EventReason.OVERRIDE_ENDED, "Normal")]


async def test_a_pause_beside_an_expired_override_holds_and_tells_of_both(engines: EngineClient) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, instructions=an_override(1, seconds=-1, paused=True))])
        with world.loop(engines) as loop:
            await step(loop)
    assert active(world) == ("False", "Paused")
    assert "ignores the override" in message(world)


async def test_after_an_override_a_pause_holds_the_table_from_before_it(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            world.change(instructions=an_override(1, seconds=60, paused=True))
            await step(loop)
            during = engine.schedule
            world.now += 61
            await step(loop)
    assert (during, engine.schedule) == (K1, K3)
    assert active(world) == ("False", "Paused")


async def test_a_restart_after_an_override_does_not_take_its_table_for_a_choice(
    engines: EngineClient,
) -> None:
    status = a_status(k=5, generation=1)
    overridden = status.conditions[0].model_copy(
        update={"type": "TuningActive", "status": "False", "reason": "Overridden"}
    )
    status = status.model_copy(update={"conditions": [*status.conditions, overridden]})
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, status=status)])
        with world.loop(engines) as loop:
            await step(loop)
    assert engine.schedule == K3
    assert told(world) == [(EventReason.OVERRIDE_ENDED, "Normal")]


async def test_a_refused_annotation_says_what_to_do_and_changes_nothing(
    engines: EngineClient, decisions: list[Decision]
) -> None:
    engine = FakeEngine()
    refused = Instructions(refused="schedule-override has no end: set schedule-override-until.")
    async with serving(engine) as pods:
        world = World([a_model(*pods, instructions=refused)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    found = world.condition("TuningActive")
    assert found is not None
    assert (found["status"], found["reason"]) == ("True", "AnnotationRefused")
    assert "has no end: set schedule-override-until" in found["message"]
    assert engine.schedule == K3
    assert len(decisions) == 2
    assert told(world) == [(EventReason.ANNOTATION_REFUSED, "Warning")]


@pytest.mark.parametrize("paused", [False, True])
async def test_a_refused_annotation_that_is_gone_is_gone_from_status_at_once(
    engines: EngineClient,
    paused: bool,
) -> None:
    refused = Instructions(paused=paused, refused="schedule-override has no end.")
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, instructions=refused)])
        with world.loop(engines) as loop:
            await step(loop)
            before = message(world)
            world.change(instructions=replace(refused, refused=None))
            await step(loop)
    assert "has no end" in before
    assert "has no end" not in message(world)


async def test_a_refused_annotation_is_told_in_mode_off_too(engines: EngineClient) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF, instructions=Instructions(refused="no end"))])
        with world.loop(engines) as loop:
            await step(loop)
    assert active(world) == ("False", "AnnotationRefused")


async def test_mode_off_says_nothing_of_a_tuner(engines: EngineClient) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF, instructions=PAUSED)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert active(world) is None
    assert told(world) == []


async def test_a_new_pod_gets_the_table_at_the_next_tick_and_decisions_rest(
    engines: EngineClient, decisions: list[Decision]
) -> None:
    first, second = FakeEngine("a"), FakeEngine("b")
    async with serving(first, second) as (one, other):
        world = World([a_model(one, status=a_status(k=5, generation=1))])
        with world.loop(engines) as loop:
            await step(loop)
            world.change(pods=(one, other))
            await step(loop)
            resting = active(world)
            asked = len(decisions)
            world.now += 31
            await step(loop)
    assert second.schedule == [{"numSpeculativeTokens": 5}]
    assert world.speculation["appliedReplicas"] == 2
    assert resting == ("False", "ReplicasSettling")
    assert (asked, len(decisions)) == (1, 2)
    assert active(world) == ("True", "Tuning")


async def test_the_first_pods_of_a_model_are_tuned_at_once(
    engines: EngineClient, decisions: list[Decision]
) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model()])
        with world.loop(engines) as loop:
            await step(loop)
            world.change(pods=tuple(pods))
            await step(loop)
    assert active(world) == ("True", "Tuning")
    assert len(decisions) == 2


async def test_a_silent_pod_does_not_keep_the_table_from_the_others(engines: EngineClient) -> None:
    silent, quick = FakeEngine("a", hangs=True), FakeEngine("b")
    async with serving(silent, quick) as pods:
        world = World([a_model(*pods, static=Schedule.constant(1))])
        with world.loop(engines) as loop:
            await step(loop)
            partial = world.condition("ActuationConverged")
            silent.hangs = False
            await step(loop)
    assert partial is not None
    assert partial["message"].startswith("1/2 at epoch 1; a: timeout")
    assert silent.schedule == quick.schedule == K1


async def test_what_speculation_is_worth_is_not_forgotten_during_a_pause(engines: EngineClient) -> None:
    status = a_status(k=3, generation=1)
    faster = status.conditions[0].model_copy(update={"type": "SpeculationEffective", "reason": "Faster"})
    model = a_model(status=status.model_copy(update={"conditions": [*status.conditions, faster]}))
    async with serving(FakeEngine()) as pods:
        world = World([replace(model, pods=tuple(pods), instructions=PAUSED)])
        with world.loop(engines) as loop:
            await step(loop)
    found = world.condition("SpeculationEffective")
    assert found is not None
    assert found["reason"] == "Faster"
