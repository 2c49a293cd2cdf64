"""When the loop ticks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from outrider.controller import tuning_loop
from outrider.controller.tuning_loop import TuningLoop
from outrider.engine.client import EngineClient
from tests.unit.tuning_loop.factories import World, a_model


@asynccontextmanager
async def running(world: World, engines: EngineClient) -> AsyncIterator[TuningLoop]:
    """Its interval is ten seconds: longer than any of these tests."""
    with world.loop(engines) as loop:
        task = asyncio.create_task(loop.run())
        try:
            await until_ticks(world, 1)
            yield loop
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def until_ticks(world: World, count: int) -> None:
    async with asyncio.timeout(5):
        while len(world.lookbacks) < count:
            await asyncio.sleep(0)


async def test_the_loop_looks_at_once_when_asked(
    engines: EngineClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning_loop, "_BREATH_SECONDS", 0.0)
    world = World(models=[a_model()])
    async with running(world, engines) as loop:
        loop.look_now()
        await until_ticks(world, 2)


async def test_many_who_ask_get_one_look(engines: EngineClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_loop, "_BREATH_SECONDS", 0.2)
    world = World(models=[a_model()])
    async with running(world, engines) as loop:
        for _ in range(100):
            loop.look_now()
        await until_ticks(world, 2)
        assert len(world.lookbacks) == 2
