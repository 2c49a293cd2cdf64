"""A new leader renews what engines hold, before it has reconciled or ticked any model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from outrider.api.launch import Launch
from outrider.api.tuning import Actuation
from outrider.cluster.errors import Unavailable
from outrider.controller.fleet import TunedModel
from outrider.controller.stored import Key
from outrider.controller.tune.engine_tables import ScheduleVersions
from outrider.controller.tune.first_renewals import FirstRenewals
from outrider.controller.tune.model_tuner import Engines
from outrider.engine.client import EngineClient
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import TIMING, World, a_model, a_status, step

_TERM = 8
_BRIEF = replace(TIMING, push_lease=0.03)
"""A lease that is renewed every 10 ms."""


class Place:
    """The models of a new leader. ticked: the UIDs of those to which a tick has pushed."""

    def __init__(self, client: EngineClient, *models: TunedModel) -> None:
        self.models: Mapping[Key, TunedModel] = {model.key: model for model in models}
        self.unreadable: set[Key] = set()
        self.ticked: set[str] = set()
        self.versions = ScheduleVersions()
        self.renewals = FirstRenewals(
            Engines(client, self.versions, lambda: _TERM),
            _BRIEF,
            read=self._read,
            ticked=self.ticked.__contains__,
        )

    async def _read(self, key: Key) -> TunedModel | None:
        if key in self.unreadable:
            raise Unavailable("no Secret")
        return self.models.get(key)


def held(engine: FakeEngine, k: int) -> FakeEngine:
    """An engine with a push of the leader before."""
    engine.schedule = [{"numSpeculativeTokens": k}]
    engine.source, engine.term, engine.epoch = "Pushed", _TERM - 1, 40
    return engine


async def test_every_engine_gets_what_the_status_reports_under_the_new_term(engines: EngineClient) -> None:
    first, second = held(FakeEngine("a"), 5), held(FakeEngine("b"), 5)
    async with serving(first, second) as pods:
        model = a_model(*pods, status=a_status(k=5, generation=1))
        place = Place(engines, model)
        renewed = await place.renewals.first([model.key])
    assert [each.uid for each in renewed] == [model.uid]
    for engine in (first, second):
        assert (engine.schedule, engine.term, engine.puts) == ([{"numSpeculativeTokens": 5}], _TERM, 1)


async def test_a_status_of_an_earlier_generation_counts_too(engines: EngineClient) -> None:
    """Until the model is reconciled, its engines are those of before."""
    engine = held(FakeEngine(), 5)
    async with serving(engine) as pods:
        model = a_model(*pods, status=a_status(k=5, generation=0))
        await Place(engines, model).renewals.first([model.key])
    assert (engine.term, engine.puts) == (_TERM, 1)


@pytest.mark.parametrize("case", ["no status", "two launches", "stock image", "no key"])
async def test_what_engines_hold_is_left_alone_where_it_is_unknown(engines: EngineClient, case: str) -> None:
    first, second = held(FakeEngine("a"), 5), held(FakeEngine("b"), 1)
    async with serving(first, second) as pods:
        model = a_model(*pods, status=a_status(k=5, generation=1))
        if case == "no status":
            model = a_model(*pods)
        elif case == "two launches":
            model = replace(model, pods=(pods[0], replace(pods[1], launch=Launch(adaptive=True))))
        elif case == "stock image":
            model = replace(model, relaunching=replace(model.relaunching, actuation=Actuation.ROLLOUT))
        place = Place(engines, model)
        if case == "no key":
            place.models = {}
        assert await place.renewals.first([model.key]) == []
    assert (first.puts, second.puts) == (0, 0)


async def test_a_model_that_cannot_be_read_delays_no_other(engines: EngineClient) -> None:
    engine = held(FakeEngine("b"), 5)
    async with serving(FakeEngine("a"), engine) as pods:
        models = [a_model(pod, name=pod.name, status=a_status(k=5, generation=1)) for pod in pods]
        place = Place(engines, *models)
        place.unreadable.add(models[0].key)
        renewed = await place.renewals.first([model.key for model in models])
    assert [each.uid for each in renewed] == [models[1].uid]
    assert engine.puts == 1


async def test_renewals_repeat_until_a_tick_has_pushed(engines: EngineClient) -> None:
    engine = held(FakeEngine(), 5)
    async with serving(engine) as pods:
        model = a_model(*pods, status=a_status(k=5, generation=1))
        place = Place(engines, model)
        renewed = await place.renewals.first([model.key])
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            tasks.create_task(place.renewals.repeat(renewed))
            while engine.puts < 3:
                await asyncio.sleep(0.001)
            place.ticked.add(model.uid)
    assert engine.epoch == 1, "all of them are one push"


async def test_renewals_end_after_three_leases(engines: EngineClient) -> None:
    """A model that cannot be reconciled is left to its static schedule, as before."""
    engine = held(FakeEngine(), 5)
    async with serving(engine) as pods:
        model = a_model(*pods, status=a_status(k=5, generation=1))
        place = Place(engines, model)
        async with asyncio.timeout(30):
            await place.renewals.repeat(await place.renewals.first([model.key]))
    assert engine.puts == 1 + 9


async def test_a_tick_pushes_above_the_first_renewal(engines: EngineClient) -> None:
    engine = held(FakeEngine(), 5)
    async with serving(engine) as pods:
        model = a_model(*pods, status=a_status(k=5, generation=1))
        place = Place(engines, model)
        await place.renewals.first([model.key])
        world = World([model], term=_TERM)
        with world.loop(engines, place.versions) as loop:
            assert not loop.has_pushed(model.uid)
            await step(loop)
            assert loop.has_pushed(model.uid)
    assert (engine.term, engine.epoch, engine.source) == (_TERM, 2, "Pushed")
