"""Engines that choose K themselves get a cost model beside the schedule, while the tuner may decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from outrider.api.annotations import Instructions, Override
from outrider.api.tuning import TuningMode
from outrider.controller.tune import model_tuner
from outrider.controller.tune.engine_tables import PushedTables, ScheduleVersions
from outrider.engine.client import EngineClient
from outrider.telemetry.source import SourceUnreachable
from outrider.tuning.decision import Decision
from outrider.tuning.tick_context import TickContext
from outrider_protocol.cost_model import CostModel, check
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning.launching import with_outlook
from tests.unit.tuning_loop.factories import NOW, World, a_model, step

Knowing = Callable[[CostModel | None], None]


def a_cost_model(*, slower: float = 1.0) -> CostModel:
    return CostModel(
        revision="",
        candidates=(0, 1, 3, 5),
        batch_sizes=(1, 64),
        step_seconds=((0.01, 0.011, 0.013, 0.015 * slower), (0.02, 0.024, 0.032, 0.04 * slower)),
        errors=((0.02,) * 4, (0.02,) * 4),
        context_tokens=1024.0,
        context_slopes=(1e-8,) * 4,
        limits=Schedule.constant(5),
    )


@pytest.fixture
def knows(monkeypatch: pytest.MonkeyPatch) -> Knowing:
    """Make the tuner know these step times from the next tick on."""
    decide = model_tuner.decide  # type: ignore[attr-defined]

    def knowing(model: CostModel | None) -> None:
        def decided(context: TickContext) -> Decision:
            return replace(with_outlook(decide(context)), cost_model=lambda: model)

        monkeypatch.setattr(model_tuner, "decide", decided)

    return knowing


def an_engine(name: str = "engine-0", **facts: Any) -> FakeEngine:
    return FakeEngine(name, max_num_seqs=64, fast_loop={}, **facts)


async def test_an_engine_that_takes_cost_models_gets_one_named_by_its_launch(
    engines: EngineClient, knows: Knowing
) -> None:
    knows(a_cost_model())
    async with serving(engine := an_engine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert engine.cost_model == check(replace(a_cost_model(), revision="eagle3/64/5")).to_wire()
    assert world.speculation["fastLoop"] == "1 of 1 engines choose K at each step"


async def test_the_status_says_which_k_engines_use_now(engines: EngineClient, knows: Knowing) -> None:
    knows(a_cost_model())
    first, second = an_engine("a"), an_engine("b")
    first.fast_loop, second.fast_loop = {"numSpeculativeTokens": 0}, {"numSpeculativeTokens": 5}
    async with serving(first, second) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert world.speculation["fastLoop"] == "2 of 2 engines choose K at each step; now K 0-5"


async def test_an_engine_that_drops_its_cost_model_is_named_with_the_cause(
    engines: EngineClient, knows: Knowing
) -> None:
    knows(a_cost_model())
    engine = an_engine()
    engine.fast_loop = {
        "active": False,
        "inactiveReason": "Disagrees",
        "inactiveDetail": "K=3 took twice as long",
    }
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert str(world.speculation["fastLoop"]).endswith("follow the schedule: K=3 took twice as long")


async def test_an_engine_with_an_older_plugin_gets_the_schedule_alone(
    engines: EngineClient, knows: Knowing
) -> None:
    knows(a_cost_model())
    old, new = FakeEngine("old", max_num_seqs=64), an_engine("new")
    async with serving(old, new) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert old.source == new.source == "Pushed"
    assert (old.cost_model, new.cost_model is not None) == (None, True)
    assert world.speculation["appliedReplicas"] == 2


async def test_a_pod_that_comes_up_later_is_taught_as_well(engines: EngineClient, knows: Knowing) -> None:
    knows(a_cost_model())
    first, second = an_engine("a"), an_engine("b")
    async with serving(first, second) as pods:
        world = World([a_model(pods[0])])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
            world.models = [a_model(*pods)]
            await step(loop)
            await step(loop)
    assert second.cost_model == first.cost_model is not None
    assert first.epoch == second.epoch


async def test_a_pod_that_had_the_schedule_alone_is_taught_under_a_new_epoch(engines: EngineClient) -> None:
    async with serving(engine := an_engine()) as pods:
        pushed = PushedTables(
            engines, ScheduleVersions(), uid="u", lease=60.0, failed_k=frozenset(), clock=lambda: NOW
        )
        model = replace(a_cost_model(), revision="eagle3/64/5")
        await pushed.push(pods, Schedule.constant(3), term=1, cost_model=model)
        assert (engine.epoch, engine.cost_model) == (1, None)
        taught = frozenset({pods[0].address.pod_uid})
        await pushed.push(pods, Schedule.constant(3), term=1, cost_model=model, taught=taught)
        await pushed.push(pods, Schedule.constant(3), term=1, cost_model=model, taught=taught)
    assert (engine.epoch, engine.cost_model) == (2, model.to_wire())


async def test_step_times_that_choose_the_same_k_are_not_pushed_again(
    engines: EngineClient, knows: Knowing
) -> None:
    knows(a_cost_model())
    async with serving(engine := an_engine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
            before = engine.epoch
            knows(a_cost_model(slower=1.005))
            await step(loop)
            same = engine.epoch
            knows(a_cost_model(slower=1.2))
            await step(loop)
    assert before == same < engine.epoch


@pytest.mark.parametrize(
    "instructions",
    [
        Instructions(paused=True),
        Instructions(
            override=Override(Schedule.constant(1), datetime.fromtimestamp(NOW, UTC) + timedelta(hours=1))
        ),
    ],
    ids=["paused", "overridden"],
)
async def test_a_person_takes_the_choice_back_from_the_engines(
    engines: EngineClient, knows: Knowing, instructions: Instructions
) -> None:
    knows(a_cost_model())
    async with serving(engine := an_engine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
            world.models = [a_model(*pods, instructions=instructions)]
            await step(loop)
            assert (engine.source, engine.cost_model) == ("Pushed", None)
            assert "fastLoop" not in world.speculation
            world.models = [a_model(*pods)]
            world.outage = SourceUnreachable("refused", action="Look at it.")
            await step(loop)
    assert engine.cost_model is not None, "no measurement is needed to give the choice back"


@pytest.mark.parametrize("mode", [TuningMode.OBSERVE, TuningMode.OFF])
async def test_outside_of_mode_auto_engines_follow_the_schedule(
    engines: EngineClient, knows: Knowing, mode: TuningMode
) -> None:
    knows(a_cost_model())
    async with serving(engine := an_engine()) as pods:
        world = World([a_model(*pods, mode=mode)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert engine.cost_model is None


async def test_step_times_that_are_not_known_any_more_are_withdrawn(
    engines: EngineClient, knows: Knowing
) -> None:
    knows(a_cost_model())
    async with serving(engine := an_engine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
            knows(None)
            await step(loop)
    assert (engine.source, engine.cost_model) == ("Pushed", None)
