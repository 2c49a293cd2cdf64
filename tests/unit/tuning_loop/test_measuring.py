"""Which span of time a tick measures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outrider.api.annotations import Instructions
from outrider.controller.tune import model_tuner
from outrider.engine.client import EngineClient
from outrider.telemetry.series import PodKey
from outrider.tuning.decision import Decision
from outrider.tuning.observe.window import Observation, Window
from outrider.tuning.tick_context import TickContext
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import NOW, TICK, World, a_model, an_override, scraped_every_5_s, step


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[list[Observation]]:
    """What the law saw, tick by tick."""
    observed: list[list[Observation]] = []
    decide = model_tuner.decide  # type: ignore[attr-defined]

    def decided(context: TickContext) -> Decision:
        observed.append(list(context.observations))
        return decide(context)

    monkeypatch.setattr(model_tuner, "decide", decided)
    return observed


async def spans(
    engines: EngineClient, seen: list[list[Observation]], *, plugin: bool
) -> list[tuple[float, float] | None]:
    """Begin and end of the window of each tick, in seconds; the table changes in the fourth and fifth."""
    async with serving(FakeEngine()) as pods:
        world = World(
            [a_model(*pods)], series={PodKey("default", "engine-0"): scraped_every_5_s(plugin=plugin)}
        )
        with world.loop(engines) as loop:
            for tick in range(6):
                world.change(
                    instructions=an_override(1, seconds=1e6) if tick == 3 else Instructions(),
                    static=Schedule.constant(3),
                )
                await step(loop)
                world.now += TICK
    windows = [observed[0] if observed else None for observed in seen]
    return [(w.started_at - NOW, w.ended_at - NOW) if isinstance(w, Window) else None for w in windows]


async def test_windows_of_neighbouring_ticks_share_one_sample(
    engines: EngineClient, seen: list[list[Observation]]
) -> None:
    found = await spans(engines, seen, plugin=True)
    assert found[:3] == [None, (1, 6), (6, 16)]


async def test_cells_tell_k_apart_so_a_change_of_the_table_cuts_nothing(
    engines: EngineClient, seen: list[list[Observation]]
) -> None:
    # The tuner does not run during an override: its window from 16 to 26 is only reported.
    found = await spans(engines, seen, plugin=True)
    assert found[3:] == [(26, 36), (36, 46)]


async def test_without_cells_a_window_begins_where_the_table_was_confirmed(
    engines: EngineClient, seen: list[list[Observation]]
) -> None:
    found = await spans(engines, seen, plugin=False)
    assert found[3:] == [(31, 36), (41, 46)]


async def test_only_as_much_is_asked_for_as_windows_need(
    engines: EngineClient, seen: list[list[Observation]]
) -> None:
    async with serving(FakeEngine()) as pods:
        key = PodKey("default", "engine-0")
        world = World([a_model(*pods)], series={key: scraped_every_5_s(plugin=True)})
        with world.loop(engines) as loop:
            for _ in range(4):
                await step(loop)
                world.now += TICK
            world.series = {}
            for _ in range(5):
                await step(loop)
                world.now += TICK
    assert seen
    steady, blind = world.lookbacks[3], world.lookbacks[-1]
    assert world.lookbacks[0] == 50
    assert steady == pytest.approx(TICK + 4 + 2)
    assert blind == 50


async def test_autoscalers_learn_what_the_load_needs_until_nobody_measures_it(engines: EngineClient) -> None:
    labels = {"namespace": "default", "model": "m"}
    async with serving(FakeEngine(max_num_seqs=64)) as pods:
        key = PodKey("default", "engine-0")
        world = World([a_model(*pods)], series={key: scraped_every_5_s(plugin=True)})
        with world.loop(engines) as loop:
            for _ in range(3):
                await step(loop)
                world.now += TICK
            measured = world.own_metric("outrider_saturation_ratio", **labels)
            world.series = {}
            for _ in range(8):
                await step(loop)
                world.now += TICK
    assert measured == pytest.approx(8 / 64)  # requests in a step, over those that the engine takes
    assert world.own_metric("outrider_required_replicas", **labels) is None


@pytest.mark.parametrize(
    ("told", "of_spec", "limit"), [(16, None, 16), (64, 32, 32), (None, 32, 32)], ids=str
)
async def test_the_largest_batch_is_that_of_the_spec_else_what_the_engine_says(
    engines: EngineClient, told: int | None, of_spec: int | None, limit: int
) -> None:
    labels = {"namespace": "default", "model": "m"}
    async with serving(FakeEngine(max_num_seqs=told)) as pods:
        key = PodKey("default", "engine-0")
        model = replace(a_model(*pods), max_num_seqs=of_spec)
        world = World([model], series={key: scraped_every_5_s(plugin=True)})
        with world.loop(engines) as loop:
            for _ in range(3):
                await step(loop)
                world.now += TICK
    assert world.own_metric("outrider_saturation_ratio", **labels) == pytest.approx(8 / limit)


async def test_a_tick_is_counted_by_its_reason_until_the_model_goes(engines: EngineClient) -> None:
    labels = {"model_namespace": "default", "model": "m", "kind": "Hold", "reason": "MetricsGap"}
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
            counted = world.own_metric("outrider_model_decisions_total", **labels)
            world.models.clear()
            await step(loop)
    assert counted == 2
    assert world.own_metric("outrider_model_decisions_total", **labels) is None
