"""Mode Observe says what it does, what it would do, and what it cannot know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outrider.api.annotations import Instructions
from outrider.api.reasons import DecisionReason, EffectiveReason
from outrider.api.tuning import TuningMode
from outrider.controller.tune import model_tuner
from outrider.engine.client import EngineClient
from outrider.telemetry.series import PodKey
from outrider.tuning.decision import Decision, Kind
from outrider.tuning.tick_context import TickContext
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.reasons.tuner_scenes import an_outcome, told
from tests.unit.tuning.launching import a_decision, with_outlook
from tests.unit.tuning_loop.factories import TICK, World, a_model, scraped_every_5_s, step

LIMIT = "these K have no measurement: {}."


async def observing(
    engines: EngineClient, *, ticks: int = 1, measured: bool = False, instructions: Instructions | None = None
) -> World:
    """After some ticks of a model whose static table is K=3."""
    async with serving(FakeEngine()) as pods:
        model = a_model(
            *pods, mode=TuningMode.OBSERVE, static=Schedule.constant(3), instructions=instructions
        )
        series = {PodKey("default", "engine-0"): scraped_every_5_s(plugin=True)} if measured else {}
        world = World([model], series=series)
        with world.loop(engines) as loop:
            for _ in range(ticks):
                await step(loop)
                world.now += TICK
    return world


def active(world: World) -> tuple[str, str, str]:
    found = world.condition("TuningActive")
    assert found is not None
    return found["status"], found["reason"], found["message"]


async def test_it_has_a_reason_of_its_own_and_changes_nothing(engines: EngineClient) -> None:
    status, reason, message = active(await observing(engines))
    assert (status, reason) == ("False", "Observing")
    assert message.startswith("Mode Observe: the tuner decides and changes nothing.")


async def test_before_any_measurement_every_k_is_a_guess(engines: EngineClient) -> None:
    assert LIMIT.format("0, 1, 3, 5") in active(await observing(engines))[2]


async def test_the_k_that_the_static_table_never_ran_are_named_as_guesses(engines: EngineClient) -> None:
    message = active(await observing(engines, ticks=6, measured=True))[2]
    assert LIMIT.format("0, 1, 5") in message
    assert message.endswith("Their estimates are guesses.")


async def test_auto_has_no_such_limit(engines: EngineClient) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    assert active(world) == ("True", "Tuning", "The tuner changes the schedule by its measurements.")


async def test_a_refused_annotation_is_said_without_claiming_that_the_table_changes(
    engines: EngineClient,
) -> None:
    status, reason, _ = active(await observing(engines, instructions=Instructions(refused="write it so.")))
    assert (status, reason) == ("False", "AnnotationRefused")


@pytest.mark.parametrize(("mode", "measured"), [(TuningMode.OBSERVE, None), (TuningMode.AUTO, "1.50")])
async def test_no_gain_is_measured_of_a_change_that_was_not_made(
    engines: EngineClient, monkeypatch: pytest.MonkeyPatch, mode: TuningMode, measured: str | None
) -> None:
    decide, table = model_tuner.decide, Schedule.constant(1)  # type: ignore[attr-defined]

    def decided(context: TickContext) -> Decision:
        """A better K at first, and the gain that was measured of it afterwards."""
        made, changed = decide(context), context.state.schedule != table
        made = with_outlook(made, measured_gain=None if changed else 0.5)
        kind, state = Kind.EXPLOIT if changed else Kind.HOLD, replace(made.state, schedule=table)
        return replace(made, kind=kind, reason=DecisionReason.BETTER_K, state=state)

    monkeypatch.setattr(model_tuner, "decide", decided)
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, mode=mode)])
        with world.loop(engines) as loop:
            await step(loop)
            world.now += TICK
            await step(loop)
    (record,) = world.decisions
    assert record.get("measuredGain") == measured


def test_speculation_is_slower_by_the_table_in_force_and_not_by_the_one_that_is_wished() -> None:
    """The tuner would take K=0, and the engines draft 3 tokens."""
    found = an_outcome(decision=a_decision(table=Schedule.constant(0)), wanted=Schedule.constant(3))
    assert EffectiveReason.SLOWER in told(found, speedup=(0.6, 0.8))


def test_that_nothing_is_drafted_is_no_verdict_where_drafts_would_be_wished() -> None:
    found = an_outcome(decision=a_decision(), wanted=Schedule.constant(0))
    assert not set(told(found, speedup=(0.9, 1.1))) & set(EffectiveReason)
