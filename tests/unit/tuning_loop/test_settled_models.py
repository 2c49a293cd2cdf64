"""With very many pods, settled models take turns to be measured. Their leases are renewed as before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from outrider.controller.tune.pace import Pace, ticks_between
from outrider.controller.tune.tuning_loop import TuningLoop
from outrider.engine.client import EngineClient
from outrider.telemetry.series import PodKey
from outrider.tuning.latency_targets import LatencyTarget, LatencyTargets
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import World, a_model, an_override, steady_series, step

POD = PodKey("default", "engine-0")
UNTIL_SETTLED = 4
"""Ticks: without a schedule, without a window, the end of the calibration, and steady load."""


def a_world(engine: FakeEngine, at_once: float) -> World:
    """One model with one K, so that it is soon settled. at_once: pods that a tick measures in time."""
    model = a_model(engine.pod, candidates=(3,))
    series = {POD: steady_series(step_seconds=0.02)}
    world = World([model], series=series, timing={"pods_at_once": at_once})
    world.now += 10
    return world


async def ticks(world: World, loop: TuningLoop, count: int) -> list[bool]:
    """Ticks at their usual pace; whether each one measured the pod."""
    measured = []
    for _ in range(count):
        fetches = len(world.lookbacks)
        await step(loop)
        measured.append(len(world.lookbacks) > fetches and POD not in world.resting[-1])
        world.now += 10
    return measured


@asynccontextmanager
async def settled(engines: EngineClient, engine: FakeEngine) -> AsyncIterator[tuple[World, TuningLoop]]:
    """The model once it is settled, among many pods."""
    async with serving(engine):
        world = a_world(engine, at_once=0.25)
        with world.loop(engines) as loop:
            await ticks(world, loop, UNTIL_SETTLED)
            yield world, loop


def test_models_of_450_pods_rest_for_no_tick_and_those_of_3000_for_three() -> None:
    assert [ticks_between(pods, 450) for pods in (0, 3, 450, 451, 900, 1350, 3000, 90_000)] == [
        *(1, 1, 1),
        *(2, 2, 3, 4, 4),
    ]


def test_settled_models_have_turns_of_their_own() -> None:
    pace = Pace(settled=True)
    turns = {uid: [pace.turns(uid, tick=tick, between=4) for tick in range(8)] for uid in "abcdefgh"}
    assert all(sum(each) == 2 for each in turns.values())
    assert len({tuple(each) for each in turns.values()}) > 1


async def test_with_few_pods_a_settled_model_is_measured_at_each_tick(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine):
        world = a_world(engine, at_once=1)
        with world.loop(engines) as loop:
            assert all(await ticks(world, loop, UNTIL_SETTLED + 6))


async def test_with_many_pods_a_settled_model_is_measured_at_some_ticks_and_renewed_at_all(
    engines: EngineClient,
) -> None:
    engine = FakeEngine()
    async with serving(engine):
        world = a_world(engine, at_once=0.25)
        with world.loop(engines) as loop:
            assert all(await ticks(world, loop, UNTIL_SETTLED))
            before = engine.puts
            assert sum(await ticks(world, loop, 8)) == 2
    assert (engine.puts, engine.epoch) == (before + 8, 1)
    labels = {"model_namespace": "default", "model": "m", "kind": "Hold", "reason": "Settled"}
    assert world.own_metric("outrider_model_decisions_total", **labels) == 1 + 2, "no window is lost"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda world: world.change(generation=2, targets=LatencyTargets(LatencyTarget(95, 0.05))),
            id="targets",
        ),
        pytest.param(lambda world: world.change(starting_pods=world.models[0].pods), id="starting pods"),
        pytest.param(lambda world: world.change(instructions=an_override(3, seconds=900)), id="an override"),
        pytest.param(
            lambda world: world.change(pods=tuple(replace(p, canary=True) for p in world.models[0].pods)),
            id="a canary",
        ),
    ],
)
async def test_these_models_are_measured_at_each_tick(
    engines: EngineClient, change: Callable[[World], None]
) -> None:
    engine = FakeEngine()
    async with settled(engines, engine) as (world, loop):
        change(world)
        assert all(await ticks(world, loop, 6))


async def test_a_changed_model_is_measured_until_it_is_settled_again(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with settled(engines, engine) as (world, loop):
        world.change(generation=2)
        assert await ticks(world, loop, 2) == [True, True]
        assert sum(await ticks(world, loop, 8)) == 2


async def test_an_engine_that_started_again_is_measured_and_pushed_to_at_the_next_tick(
    engines: EngineClient,
) -> None:
    engine = FakeEngine()
    async with settled(engines, engine) as (world, loop):
        while (await ticks(world, loop, 1)) == [True]:
            pass
        engine.restart()
        await loop.renew(older=0)
        assert await ticks(world, loop, 2) == [True, True]
    assert engine.source == "Pushed"


async def test_a_model_with_another_load_is_measured_at_the_next_tick(engines: EngineClient) -> None:
    known = Pace(settled=True, batch_size=8.0)
    engine = FakeEngine()
    async with settled(engines, engine) as (world, loop):
        (tuned,) = loop._tuned.values()
        assert tuned.pace == known
        tuned.pace = replace(known, batch_size=16.0)
        while (await ticks(world, loop, 1)) == [False]:
            pass
        assert await ticks(world, loop, 1) == [True]
