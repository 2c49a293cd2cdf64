"""Events: which, in which words and how severe; on transitions, and never again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from outrider.api.launch import Launch, RelaunchPolicy
from outrider.api.reasons import EventReason
from outrider.api.tuning import Actuation, TuningMode
from outrider.controller.tune import model_tuner
from outrider.engine.client import EngineClient
from outrider.telemetry.series import PodKey
from outrider.tuning.decision import Decision, Kind
from outrider.tuning.tick_context import TickContext
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import OUTAGE, TICK, World, a_model, scraped_every_5_s, step

Deciding = Callable[[Sequence[tuple[Kind, int]]], None]


@pytest.fixture
def law(monkeypatch: pytest.MonkeyPatch) -> Deciding:
    """Makes the law decide for these K, one per tick."""
    decide = model_tuner.decide  # type: ignore[attr-defined]

    def deciding(choices: Sequence[tuple[Kind, int]]) -> None:
        left = list(choices)

        def decided(context: TickContext) -> Decision:
            kind, k = left.pop(0)
            made = decide(context)
            state = replace(made.state, schedule=Schedule.constant(k))
            return replace(made, state=state, kind=kind, sentence=f"{kind}: K is {k}.", probe=None)

        monkeypatch.setattr(model_tuner, "decide", decided)

    return deciding


def told(world: World) -> list[tuple[EventReason, str, str]]:
    """Apart from the measurements, which these tests do not have."""
    found = ((*each, note) for each, note in zip(world.events, world.notes, strict=True))
    return [each for each in found if each[0] is not EventReason.METRICS_LOST]


async def ticks(world: World, engines: EngineClient, count: int) -> None:
    with world.loop(engines) as loop:
        for _ in range(count):
            await step(loop)
            world.now += TICK


async def test_a_better_table_and_the_way_back_are_told_in_the_words_of_the_decision(
    engines: EngineClient, law: Deciding
) -> None:
    law([(Kind.EXPLOIT, 1), (Kind.HOLD, 1), (Kind.ROLL_BACK, 3), (Kind.HOLD, 3)])
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        await ticks(world, engines, 4)
    assert told(world) == [
        (EventReason.RETUNED, "Normal", "Exploit: K is 1."),
        (EventReason.RETUNED, "Normal", "RollBack: K is 3."),
    ]


async def test_a_calibration_that_changes_the_table_is_told_as_any_other_change(
    engines: EngineClient, law: Deciding
) -> None:
    law([(Kind.EXPLORE, 1), (Kind.EXPLORE, 1), (Kind.ROLL_BACK, 3)])
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        await ticks(world, engines, 3)
    assert told(world) == [
        (EventReason.RETUNED, "Normal", "Explore: K is 1."),
        (EventReason.RETUNED, "Normal", "RollBack: K is 3."),
    ]


async def test_a_table_that_stays_is_not_told(engines: EngineClient, law: Deciding) -> None:
    law([(Kind.EXPLORE, 3), (Kind.HOLD, 3), (Kind.EXPLOIT, 3)])
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        await ticks(world, engines, 3)
    assert told(world) == []


async def test_observe_says_what_it_would_have_done(engines: EngineClient, law: Deciding) -> None:
    law([(Kind.EXPLOIT, 1), (Kind.HOLD, 1)])
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, mode=TuningMode.OBSERVE)])
        await ticks(world, engines, 2)
    assert told(world) == [
        (
            EventReason.WOULD_RETUNE,
            "Normal",
            "Mode Auto would change the schedule *:3 -> *:1: Exploit: K is 1.",
        )
    ]


@pytest.mark.parametrize(("mode", "would"), [(TuningMode.OBSERVE, True), (TuningMode.AUTO, None)])
async def test_a_decision_in_status_is_marked_where_it_was_not_carried_out(
    engines: EngineClient, law: Deciding, mode: TuningMode, would: bool | None
) -> None:
    law([(Kind.EXPLOIT, 1), (Kind.HOLD, 1)])
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, mode=mode)])
        await ticks(world, engines, 2)
    (record,) = world.decisions
    assert (record["from"], record["to"], record.get("would")) == ("*:3", "*:1", would)


async def test_lost_measurements_are_a_warning_and_their_return_is_news(engines: EngineClient) -> None:
    async with serving(FakeEngine()) as pods:
        series = {PodKey("default", "engine-0"): scraped_every_5_s(plugin=True)}
        world = World([a_model(*pods)], series=series)
        with world.loop(engines) as loop:
            for outage in (None, None, None, OUTAGE, OUTAGE, None, None):
                world.outage = outage
                await step(loop)
                world.now += TICK
    assert list(zip(world.events, world.notes, strict=True)) == [
        (
            (EventReason.METRICS_LOST, "Warning"),
            "Outrider keeps the schedule: connection refused. Check prometheus.url.",
        ),
        ((EventReason.METRICS_RECOVERED, "Normal"), "1 pod has fresh samples."),
    ]


async def test_a_pod_that_refuses_is_a_warning_that_names_it_and_its_return_is_news(
    engines: EngineClient,
) -> None:
    engine = FakeEngine("a")
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)])
        with world.loop(engines) as loop:
            for answer in (None, (500, ""), (500, ""), None, None):
                engine.answer = answer
                await step(loop)
    assert told(world) == [
        (
            EventReason.ACTUATION_FAILED,
            "Warning",
            "0/1 at epoch 1; a: HTTP 500 without a reason. Outrider retries at the next tick.",
        ),
        (EventReason.ACTUATION_RECOVERED, "Normal", "1/1 at epoch 1."),
    ]


async def test_a_table_that_comes_by_a_relaunch_is_told_with_the_relaunch_alone(
    engines: EngineClient, law: Deciding
) -> None:
    law([(Kind.EXPLOIT, 1), (Kind.HOLD, 1)])
    async with serving(FakeEngine()) as pods:
        model = replace(a_model(*pods), relaunching=RelaunchPolicy(actuation=Actuation.ROLLOUT))
        world = World([model])
        await ticks(world, engines, 2)
    assert EventReason.RETUNED not in [reason for reason, _, _ in told(world)]
    assert EventReason.WOULD_RETUNE not in [reason for reason, _, _ in told(world)]


async def test_pods_that_wait_for_their_rolling_restart_are_no_failure(engines: EngineClient) -> None:
    async with serving(FakeEngine()) as [pod]:
        other = replace(pod, launch=Launch(schedule=Schedule.constant(5)))
        model = replace(a_model(other), relaunching=RelaunchPolicy(actuation=Actuation.ROLLOUT))
        world = World([model])
        await ticks(world, engines, 2)
    found = world.condition("ActuationConverged")
    assert found is not None
    assert found["status"] == "False"
    assert told(world) == []
