"""Whatever one engine answers, the client has a word for it, and another model is tuned as before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from outrider.api.tuning import TuningMode
from outrider.controller.fleet import EnginePod
from outrider.controller.tune.tuning_loop import TuningLoop
from outrider.engine.client import EngineClient
from outrider.engine.errors import EngineError
from outrider.engine.state import EngineState
from tests.unit.engine.fake_engine import FakeEngine, an_address, serving
from tests.unit.tuning_loop.factories import PUSH, World, a_model
from tests.unit.tuning_loop.hostile_engine import ANSWERS, Answer, HostileEngine, hostile

TIMEOUT_SECONDS = 0.2


async def answer_of(client: EngineClient, engine: HostileEngine) -> EngineState | Exception:
    try:
        return await client.push(an_address(engine.url), PUSH)
    except Exception as error:  # noqa: BLE001 - any at all is what the test looks for
        return error


@settings(max_examples=15)
@given(st.lists(ANSWERS, min_size=1, max_size=10))
async def test_every_answer_is_a_state_or_an_error_of_the_client(answers: list[Answer]) -> None:
    client = EngineClient(timeout_seconds=TIMEOUT_SECONDS)
    async with hostile() as engine:
        for engine.answer in answers:
            found = await answer_of(client, engine)
            event(type(found).__name__)
            assert isinstance(found, EngineState | EngineError)
            assert len(str(found)) < 4_096
    await client.aclose()


@dataclass
class Fleet:
    """A model whose ready and coming pods are hostile, and a healthy one, in a loop that runs."""

    loop: TuningLoop
    ready: HostileEngine
    coming: HostileEngine
    healthy: FakeEngine
    running: asyncio.Task[None]

    async def survives(self, answer: Answer) -> None:
        """Both hostile pods have given it, and then the healthy one is renewed."""
        self.ready.answer = self.coming.answer = answer
        await self._until_asked(self.ready)
        await self._until_asked(self.coming)
        pushes = self.healthy.puts
        while self.healthy.puts == pushes:
            await self._look()

    async def _until_asked(self, engine: HostileEngine) -> None:
        asked = engine.asked
        while engine.asked == asked:
            await self._look()

    async def _look(self) -> None:
        assert not self.running.done()
        await asyncio.sleep(0.001)


@asynccontextmanager
async def a_fleet(world: World) -> AsyncIterator[Fleet]:
    engines, healthy = EngineClient(timeout_seconds=TIMEOUT_SECONDS), FakeEngine("healthy")
    async with hostile() as ready, hostile() as coming, serving(healthy) as [pod]:
        first, second = (EnginePod("hostile", an_address(each.url)) for each in (ready, coming))
        bad = replace(a_model(first, name="bad"), starting_pods=(second,))
        world.interval = 0.01
        world.models = [bad, a_model(pod, name="good", mode=TuningMode.OFF)]
        with world.loop(engines) as loop:
            running = asyncio.create_task(loop.run())
            try:
                yield Fleet(loop, ready, coming, healthy, running)
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running
    await engines.aclose()


@settings(max_examples=6)
@given(st.lists(ANSWERS, min_size=1, max_size=10))
async def test_a_healthy_model_is_tuned_on_after_every_answer_of_a_hostile_engine(
    answers: list[Answer],
) -> None:
    world = World(timing={"starting_push": 0.005, "rest": 0.0})
    async with asyncio.timeout(300), a_fleet(world) as fleet:
        for answer in answers:
            await fleet.survives(answer)
    assert world.own_metric("outrider_operator_tuning_failures_total") == 0
    assert "internal error" not in str(world.statuses)
