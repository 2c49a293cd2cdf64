"""Pods that come up get the table, each on its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from outrider.api.launch import Launch, RelaunchPolicy
from outrider.api.tuning import Actuation, TuningMode
from outrider.controller.fleet import EnginePod, TunedModel
from outrider.controller.tune.actuation import push_ahead_forever
from outrider.controller.tune.engine_tables import ScheduleVersions
from outrider.controller.tune.model_tuner import Engines, ModelTuner
from outrider.engine.client import EngineAddress, EngineClient
from outrider.engine.state import EngineState
from outrider_protocol.control_api import Push
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, an_address, serving
from tests.unit.tuning_loop.factories import NOW, PUSH, TIMING, World, a_model, a_store


@asynccontextmanager
async def pushing_ahead(engines: EngineClient, pods: Sequence[EnginePod]) -> AsyncIterator[None]:
    async with asyncio.timeout(60):
        task = asyncio.create_task(
            push_ahead_forever(engines, lambda: [(pod, PUSH) for pod in pods], interval_seconds=0.01)
        )
        try:
            yield
            assert not task.done()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def until_pushed(engine: FakeEngine, times: int = 1) -> None:
    while engine.puts < times:
        await asyncio.sleep(0.001)


async def test_a_pod_gets_the_table_as_soon_as_it_takes_it(engines: EngineClient) -> None:
    engine = FakeEngine(answer=(503, "starting"))
    async with serving(engine) as pods, pushing_ahead(engines, pods):
        while not engine.callers:
            await asyncio.sleep(0.001)
        engine.answer = None
        await until_pushed(engine)
    assert (engine.schedule, engine.epoch) == (PUSH.schedule.to_wire(), PUSH.fence.epoch)


async def test_a_pod_that_starts_again_before_it_is_ready_gets_the_table_again(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods, pushing_ahead(engines, pods):
        await until_pushed(engine)
        engine.restart()
        await until_pushed(engine, engine.puts + 1)
    assert engine.schedule == PUSH.schedule.to_wire()


async def test_a_silent_pod_is_asked_once_at_a_time_and_holds_up_no_other() -> None:
    silent, prompt = FakeEngine("silent", hangs=True), FakeEngine("prompt")
    async with serving(silent, prompt) as pods:
        engines = EngineClient(timeout_seconds=60)
        async with pushing_ahead(engines, pods):
            await until_pushed(prompt, 5)
        await engines.aclose()
    assert len(silent.callers) == 1


class Stumbling(EngineClient):
    async def push(self, engine: EngineAddress, push: Push) -> EngineState:
        if engine.pod_uid == "odd":
            raise TypeError("a defect")
        return await super().push(engine, push)


async def test_a_defect_over_one_pod_ends_the_pushes_to_no_other() -> None:
    engine = FakeEngine()
    async with serving(engine) as [pod]:
        engines = Stumbling(timeout_seconds=5)
        odd = EnginePod("odd", an_address("http://odd", "odd"))
        async with pushing_ahead(engines, [odd, pod]):
            await until_pushed(engine, 2)
        await engines.aclose()


@dataclass
class Model:
    """One with a ready pod and one that comes up, and its tuner."""

    tuned: TunedModel
    tuner: ModelTuner

    async def tick(self) -> None:
        await self.tuner.tick(self.tuned, {}, now=NOW)

    def starting_pods(self) -> list[tuple[str, Schedule, int]]:
        """Name, table and epoch of what is pushed to those that come up."""
        found = self.tuner.starting_pods(self.tuned)
        return [(pod.name, push.schedule, push.fence.epoch) for pod, push in found]


@asynccontextmanager
async def a_growing_model(engines: EngineClient, launch: Launch | None = None) -> AsyncIterator[Model]:
    async with serving(FakeEngine("ready"), FakeEngine("new")) as (ready, new):
        tuned = a_model(ready, mode=TuningMode.OFF, static=Schedule.constant(1))
        tuned = replace(tuned, starting_pods=(replace(new, launch=launch or Launch()),))
        world, access = World(), Engines(engines, ScheduleVersions(), lambda: 1)
        tuner = ModelTuner(access, world, a_store(world), TIMING, uid=tuned.uid, clock=lambda: NOW)
        yield Model(tuned, tuner)


async def test_a_pod_that_comes_up_gets_the_table_of_the_last_tick(engines: EngineClient) -> None:
    async with a_growing_model(engines) as model:
        await model.tick()
        first = model.starting_pods()
        model.tuned = replace(model.tuned, static=Schedule.constant(5))
        await model.tick()
    assert first == [("new", Schedule.constant(1), 1)]
    assert model.starting_pods() == [("new", Schedule.constant(5), 2)]


async def test_before_the_first_tick_there_is_no_table_to_push(engines: EngineClient) -> None:
    async with a_growing_model(engines) as model:
        assert model.starting_pods() == []


async def test_a_pod_that_comes_up_without_a_drafter_gets_no_table(engines: EngineClient) -> None:
    async with a_growing_model(engines, Launch(drafter=False)) as model:
        await model.tick()
    assert model.starting_pods() == []


async def test_where_tables_come_with_the_launch_nobody_who_comes_up_is_pushed(engines: EngineClient) -> None:
    async with a_growing_model(engines) as model:
        await model.tick()
        model.tuned = replace(model.tuned, relaunching=RelaunchPolicy(actuation=Actuation.ROLLOUT))
    assert model.starting_pods() == []
