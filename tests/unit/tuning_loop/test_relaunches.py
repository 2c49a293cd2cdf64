"""Who gets tables when engines are launched otherwise, and how orders about their launch are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from outrider.api.annotations import Instructions, Override
from outrider.api.launch import Launch, LaunchOrder, RelaunchPolicy
from outrider.api.reasons import EventReason
from outrider.api.tuning import Actuation, Canary, StructuralOff, TuningMode
from outrider.cluster.errors import ClusterError
from outrider.controller.fleet import EnginePod
from outrider.controller.tune import model_tuner
from outrider.engine.client import EngineClient
from outrider.tuning.decision import Decision, Outlook, Structural
from outrider.tuning.observe.window import Observation
from outrider.tuning.tick_context import TickContext
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning.launching import an_outlook
from tests.unit.tuning_loop.factories import NOW, World, a_model, step

BARE = Launch(drafter=False)
ALLOW = RelaunchPolicy(structural_off=StructuralOff.ALLOW)
RECOMMEND = RelaunchPolicy(structural_off=StructuralOff.RECOMMEND)
ROLLOUT = RelaunchPolicy(actuation=Actuation.ROLLOUT)
CANARY = RelaunchPolicy(canary=Canary.ALLOW)
DWELL = 310.0
PAUSED = Instructions(paused=True)
PINNED = Instructions(
    override=Override(Schedule.constant(1), until=datetime.fromtimestamp(NOW, UTC) + timedelta(days=1))
)


@dataclass
class Law:
    """The real law, with another opinion on the launch."""

    structural: Structural = Structural.KEEP
    outlook: Outlook | None = None
    table: Schedule | None = None
    apart: Sequence[Observation] = ()
    seen: Sequence[Observation] = ()

    def opine(self, decision: Decision) -> Decision:
        outlook = None if self.outlook is None else replace(self.outlook, structural=self.structural)
        state = replace(decision.state, schedule=self.table or decision.schedule)
        return replace(decision, outlook=outlook, state=state)


@pytest.fixture
def law(monkeypatch: pytest.MonkeyPatch) -> Law:
    told, decide = Law(outlook=an_outlook()), model_tuner.decide  # type: ignore[attr-defined]

    def decided(context: TickContext) -> Decision:
        told.seen, told.apart = context.observations, context.without_drafter
        return told.opine(decide(context))

    monkeypatch.setattr(model_tuner, "decide", decided)
    return told


def launched(pod: EnginePod, launch: Launch = BARE, *, canary: bool = False) -> EnginePod:
    return replace(pod, launch=launch, canary=canary)


def a_world(*pods: EnginePod, relaunching: RelaunchPolicy = ALLOW, order: LaunchOrder | None = None) -> World:
    model = a_model(*pods)
    return World(
        [
            replace(
                model,
                relaunching=relaunching,
                stored_order=order or LaunchOrder(),
                replicas=max(1, len(pods)),
            )
        ]
    )


def happened(world: World) -> list[EventReason]:
    """All reports, apart from the missing measurements of these tests."""
    return [reason for reason, _ in world.events if reason is not EventReason.METRICS_LOST]


async def ticks(world: World, engines: EngineClient, count: int, *, seconds: float = 10.0) -> None:
    """In a fresh process."""
    with world.loop(engines) as loop:
        for _ in range(count):
            await step(loop)
            world.now += seconds


async def test_engines_without_a_drafter_get_no_table(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as (pod,):
        world = a_world(launched(pod), order=LaunchOrder(BARE))
        await ticks(world, engines, 3)
    assert engine.puts == 0
    assert world.speculation["state"] == "HardOff"
    assert "scheduleSummary" not in world.speculation
    assert world.condition("ActuationConverged") is None


async def test_a_canary_gets_no_table_and_is_measured_apart(engines: EngineClient, law: Law) -> None:
    tuned, canary = FakeEngine("a"), FakeEngine("b")
    async with serving(tuned, canary) as (first, second):
        world = a_world(
            first,
            launched(second, canary=True),
            relaunching=CANARY,
            order=LaunchOrder(canary=Launch(drafter=False)),
        )
        await ticks(world, engines, 3)
    assert (tuned.puts, canary.puts) == (3, 0)
    assert [o.pod for o in law.seen] == ["default/a"]
    assert [o.pod for o in law.apart] == ["default/b"]
    assert world.speculation["state"] == "Active"
    assert world.speculation["appliedReplicas"] == 1


async def test_under_rollout_nobody_is_pushed_and_launches_are_counted(engines: EngineClient) -> None:
    one, two = FakeEngine("a"), FakeEngine("b")
    static, table = Schedule.constant(3), Schedule.parse("12:1,*:3")
    async with serving(one, two) as (first, second):
        world = a_world(
            launched(first, Launch(schedule=static)),
            launched(second, Launch(schedule=table)),
            relaunching=ROLLOUT,
            order=LaunchOrder(Launch(schedule=table)),
        )
        await ticks(world, engines, 2)
    assert one.puts == two.puts == 0
    assert world.speculation["appliedReplicas"] == 1
    assert world.speculation["scheduleSummary"] == "12:1,*:3"
    found = world.condition("ActuationConverged")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "PartiallyApplied")
    assert found["message"].startswith("1/2 pods run the schedule 12:1,*:3")


async def test_under_rollout_the_static_table_needs_no_order(engines: EngineClient) -> None:
    async with serving(FakeEngine()) as (pod,):
        world = a_world(launched(pod, Launch(schedule=Schedule.constant(3))), relaunching=ROLLOUT)
        await ticks(world, engines, 2)
    found = world.condition("ActuationConverged")
    assert found is not None
    assert (found["status"], found["message"]) == ("True", "1/1 pods run the schedule *:3.")


async def test_under_rollout_a_better_table_is_ordered_and_told_once(engines: EngineClient, law: Law) -> None:
    law.table, law.outlook = Schedule.parse("12:1,*:3"), an_outlook(rates={1: 120.0})
    async with serving(FakeEngine()) as (pod,):
        world = a_world(launched(pod, Launch(schedule=Schedule.constant(3))), relaunching=ROLLOUT)
        await ticks(world, engines, 4, seconds=DWELL / 2)
    assert world.orders == [LaunchOrder(Launch(schedule=law.table))]
    assert happened(world) == [EventReason.RELAUNCHED]
    record = world.decisions[0]
    assert (record["from"], record["to"], record["expectedGain"]) == ("spec", "12:1,*:3", "1.20")
    assert len(world.decisions) == 1


async def test_an_idle_drafter_is_recommended_away_in_words(engines: EngineClient, law: Law) -> None:
    law.structural = Structural.OFF
    async with serving(FakeEngine()) as (pod,):
        world = a_world(pod, relaunching=RECOMMEND)
        await ticks(world, engines, 4, seconds=DWELL)
    assert world.orders == []
    found = world.condition("LaunchOptimal")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "DrafterIdle")
    assert happened(world) == [EventReason.RELAUNCH_ADVISED]


async def test_an_idle_drafter_is_relaunched_away_where_allowed(engines: EngineClient, law: Law) -> None:
    law.structural = Structural.OFF
    async with serving(FakeEngine()) as (pod,):
        world = a_world(pod)
        await ticks(world, engines, 3, seconds=DWELL)
    assert world.orders == [LaunchOrder(BARE)]
    assert (EventReason.RELAUNCHED, "Normal") in world.events
    assert world.decisions[0]["to"] == "no-drafter"
    found = world.condition("LaunchOptimal")
    assert found is not None
    assert found["reason"] == "Relaunching"


async def test_an_order_that_could_not_be_stored_is_given_again(engines: EngineClient, law: Law) -> None:
    law.structural = Structural.OFF
    async with serving(FakeEngine()) as (pod,):
        world = a_world(pod)
        world.order_error = ClusterError("the API server is away")
        with world.loop(engines) as loop:
            for _ in range(3):
                await step(loop)
                world.now += DWELL
            found = world.condition("LaunchOptimal")
            world.order_error = None
            await step(loop)
    assert found is not None
    assert "the API server is away" in found["message"]
    assert world.orders == [LaunchOrder(BARE)]
    assert happened(world) == [EventReason.RELAUNCHED]


@pytest.mark.parametrize(
    "held",
    [
        {"mode": TuningMode.OBSERVE},
        {"mode": TuningMode.OFF},
        {"instructions": Instructions(paused=True)},
        {"returned_table": Schedule.constant(1)},
    ],
    ids=["Observe", "Off", "paused", "rolled back"],
)
async def test_where_the_tuner_may_not_act_nothing_is_ordered(
    engines: EngineClient, law: Law, held: dict[str, Any]
) -> None:
    law.structural = Structural.OFF
    async with serving(FakeEngine()) as (pod,):
        world = a_world(pod)
        world.change(**held)
        await ticks(world, engines, 4, seconds=DWELL)
    assert world.orders == []


@pytest.mark.parametrize("held", [PAUSED, PINNED], ids=["paused", "pinned"])
async def test_while_a_person_holds_the_table_a_late_relaunch_is_not_taken_back_either(
    engines: EngineClient, law: Law, held: Instructions
) -> None:
    law.structural = Structural.OFF
    async with serving(FakeEngine()) as (pod,):
        world = a_world(pod, relaunching=replace(ALLOW, deadline_seconds=600))
        await ticks(world, engines, 1, seconds=DWELL)
        world.now += 600
        world.change(instructions=held)
        await ticks(world, engines, 2, seconds=DWELL)
        assert world.orders == [LaunchOrder(BARE)]
        world.change(instructions=Instructions())
        await ticks(world, engines, 1)
    assert world.orders == [LaunchOrder(BARE), LaunchOrder()]


@pytest.mark.parametrize("allowed", [ALLOW, RelaunchPolicy()], ids=["allowed", "forbidden"])
async def test_an_order_of_before_stays_untouched_in_mode_observe(
    engines: EngineClient, law: Law, allowed: RelaunchPolicy
) -> None:
    law.structural = Structural.ON
    async with serving(FakeEngine()) as (pod,):
        world = a_world(launched(pod), relaunching=allowed, order=LaunchOrder(BARE))
        world.change(mode=TuningMode.OBSERVE)
        await ticks(world, engines, 4, seconds=DWELL)
    assert world.orders == []


async def test_a_process_that_died_right_after_its_order_causes_no_second_relaunch(
    engines: EngineClient, law: Law
) -> None:
    law.structural = Structural.ON
    async with serving(FakeEngine()) as (pod,):
        world = a_world(launched(pod), order=LaunchOrder(BARE))  # stored, but no state of it was kept
        await ticks(world, engines, 5, seconds=DWELL)
        assert world.orders == []
        await ticks(world, engines, 10, seconds=DWELL)
    assert world.orders == [LaunchOrder()]


async def test_the_wait_after_a_relaunch_survives_a_restart(engines: EngineClient, law: Law) -> None:
    law.structural = Structural.OFF
    async with serving(FakeEngine()) as (pod,):
        world = a_world(pod)
        await ticks(world, engines, 3, seconds=DWELL)
        world.change(pods=(launched(pod),))
        law.structural = Structural.ON
        await ticks(world, engines, 5, seconds=DWELL)
        found = world.condition("LaunchOptimal")
    assert found is not None
    assert found["reason"] == "RelaunchPostponed"
    assert len(world.orders) == 1


@pytest.mark.parametrize("left", [RelaunchPolicy(), CANARY], ids=["nothing", "something else"])
async def test_an_order_that_the_spec_no_longer_allows_is_forgotten(
    engines: EngineClient, law: Law, left: RelaunchPolicy
) -> None:
    law.structural = Structural.OFF
    async with serving(FakeEngine()) as (pod,):
        world = a_world(pod)
        with world.loop(engines) as loop:
            for _ in range(3):
                await step(loop)
                world.now += DWELL
            world.change(relaunching=left)
            for _ in range(3):
                await step(loop)
    assert world.orders == [LaunchOrder(BARE), LaunchOrder()]


async def test_an_order_that_a_person_deleted_is_not_given_again_at_once(
    engines: EngineClient, law: Law
) -> None:
    law.structural = Structural.OFF
    async with serving(FakeEngine()) as (pod,):
        world = a_world(launched(pod), order=LaunchOrder(BARE))
        with world.loop(engines) as loop:
            await step(loop)
            world.change(stored_order=LaunchOrder(), pods=(pod,))
            for _ in range(40):
                world.now += 10
                await step(loop)
    assert world.models[0].order == LaunchOrder()
    found = world.condition("LaunchOptimal")
    assert found is not None
    assert found["reason"] == "RelaunchPostponed"


async def test_under_rollout_an_edited_static_table_takes_over(engines: EngineClient, law: Law) -> None:
    old, table = Schedule.constant(3), Schedule.parse("12:1,*:3")
    law.table = table
    async with serving(FakeEngine()) as (pod,):
        world = a_world(
            launched(pod, Launch(schedule=table)),
            relaunching=ROLLOUT,
            order=LaunchOrder(Launch(schedule=table)),
        )
        world.change(static=old)
        with world.loop(engines) as loop:
            await step(loop)
            world.change(static=Schedule.constant(5))
            await step(loop)
    assert world.orders == [LaunchOrder()]


async def test_models_whose_launch_is_their_own_say_nothing_of_it(engines: EngineClient, law: Law) -> None:
    law.structural = Structural.OFF
    async with serving(FakeEngine()) as (pod,):
        world = a_world(pod, relaunching=RelaunchPolicy())
        await ticks(world, engines, 2)
    assert world.condition("LaunchOptimal") is None


@pytest.mark.usefixtures("law")
async def test_a_canary_starts_and_ends_with_two_events(engines: EngineClient) -> None:
    async with serving(FakeEngine("a"), FakeEngine("b")) as (first, second):
        world = a_world(first, second, relaunching=CANARY)
        with world.loop(engines) as loop:
            await step(loop)
            found = world.condition("LaunchOptimal")
            world.change(pods=(first, launched(second, canary=True)))
            await step(loop)
            world.now += 1000.0
            await step(loop)
    assert found is not None
    assert found["reason"] == "CanaryRunning"
    assert world.orders == [LaunchOrder(canary=Launch(drafter=False)), LaunchOrder()]
    assert happened(world) == [EventReason.CANARY_STARTED, EventReason.CANARY_ENDED]


async def test_a_relaunch_that_does_not_end_in_time_is_taken_back_with_a_warning(
    engines: EngineClient, law: Law
) -> None:
    law.structural = Structural.OFF
    async with serving(FakeEngine()) as (pod,):
        world = a_world(pod, relaunching=replace(ALLOW, deadline_seconds=600))
        await ticks(world, engines, 3, seconds=DWELL)
        world.now += 600
        await ticks(world, engines, 2, seconds=DWELL)
    assert world.orders == [LaunchOrder(BARE), LaunchOrder()]
    assert world.events.count((EventReason.RELAUNCH_ROLLED_BACK, "Warning")) == 1
