"""A model whose engines do not answer delays no decision, push or tick of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from outrider.api.tuning import TuningMode
from outrider.controller.tune.tuning_loop import TuningLoop
from outrider.engine.client import EngineClient
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import World, a_model, step


@pytest.fixture
async def patient() -> AsyncIterator[EngineClient]:
    """A client that waits for a silent engine longer than any test."""
    client = EngineClient(timeout_seconds=3600)
    yield client
    await client.aclose()


@asynccontextmanager
async def a_silent_model(
    engines: EngineClient, **timing: float
) -> AsyncIterator[tuple[World, TuningLoop, FakeEngine, FakeEngine]]:
    """The world, its loop, the engine of a silent model, and that of another one."""
    silent, well = FakeEngine("silent", hangs=True), FakeEngine("well")
    async with serving(silent, well) as (first, second):
        models = [a_model(pod, name=pod.name, mode=TuningMode.OFF) for pod in (first, second)]
        world = World(models, timing=timing)
        with world.loop(engines) as loop:
            yield world, loop, silent, well


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not what():
            await asyncio.sleep(0.001)


async def test_ticks_of_others_continue_while_one_model_waits_for_its_engines(patient: EngineClient) -> None:
    async with a_silent_model(patient) as (world, loop, silent, well), asyncio.timeout(60):
        for _ in range(3):
            await loop.tick()
        assert well.puts == 3
        assert len(silent.callers) <= 2, "its push and the question for its state, once"
        assert world.own_metric("outrider_operator_late_models") == 1
        await loop._rounds.aclose()


async def test_its_status_says_so_as_soon_as_its_tick_ends(engines: EngineClient) -> None:
    async with a_silent_model(engines) as (world, loop, silent, _):
        await loop.tick()
        assert "timeout" not in str(world.statuses)
        await loop.written()
        assert "0/1 at epoch 1; silent: timeout" in str(world.statuses)
        silent.hangs = False
        await step(loop)
        await step(loop)
        assert world.own_metric("outrider_operator_late_models") == 0
    assert silent.puts == 2


async def test_a_model_that_is_gone_before_its_tick_ends_leaves_no_trace(engines: EngineClient) -> None:
    async with a_silent_model(engines) as (world, loop, _, _):
        await loop.tick()
        gone = world.models.pop(0)
        await loop.tick()
        before = len(world.statuses)
        await loop.written()
        assert world.own_metric("outrider_model_k", model_namespace="default", model=gone.name) is None
        assert ("apply_status", gone.name) not in world.calls
        assert len(world.statuses) == before


async def test_renewals_of_others_do_not_wait_for_a_silent_engine(patient: EngineClient) -> None:
    async with a_silent_model(patient) as (_, loop, silent, well), asyncio.timeout(60):
        silent.hangs = False
        await step(loop)
        silent.hangs = True
        for _ in range(2):
            await loop.renew(older=0.0)
        assert (well.puts, silent.puts) == (3, 1)
        await loop._renewals.aclose()


async def test_the_end_of_the_loop_ends_ticks_that_wait(patient: EngineClient) -> None:
    async with a_silent_model(patient, last_renewals=0.05) as (_, loop, _, well):
        running = asyncio.create_task(loop.run())
        await until(lambda: well.puts > 0)
        running.cancel()
        async with asyncio.timeout(60):
            await asyncio.wait({running})
        assert not loop._rounds.running | loop._renewals.running
