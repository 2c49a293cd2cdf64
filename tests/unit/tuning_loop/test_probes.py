"""A wish for a probe reaches its pod after the table, and never stops a tick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from outrider.api.tuning import TuningMode
from outrider.controller.tune import model_tuner
from outrider.engine.client import EngineClient
from outrider.tuning.decision import Decision, Probe, Slice
from outrider.tuning.tick_context import TickContext
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import World, a_model, step

Wishing = Callable[[Probe | None], None]


@pytest.fixture
def wish(monkeypatch: pytest.MonkeyPatch) -> Wishing:
    """Make the law ask for this probe at every tick."""
    decide = model_tuner.decide  # type: ignore[attr-defined]

    def wishing(probe: Probe | None) -> None:
        def decided(context: TickContext) -> Decision:
            return replace(decide(context), probe=probe)

        monkeypatch.setattr(model_tuner, "decide", decided)

    return wishing


def a_probe(pod: str = "default/engine-0", *, seconds: float = 1.0) -> Probe:
    return Probe(pod, 7, 12, (Slice(1, seconds), Slice(0, seconds)))


async def test_a_probe_goes_to_its_pod_on_top_of_the_table_of_this_tick(
    engines: EngineClient, wish: Wishing
) -> None:
    first, second = FakeEngine("a"), FakeEngine("b")
    wish(a_probe("default/b"))
    async with serving(first, second) as pods:
        world = World([a_model(*pods)], term=4)
        with world.loop(engines) as loop:
            await step(loop)
    assert first.posted == []
    (posted,) = second.posted
    assert (posted["term"], posted["epoch"], posted["minBatchSize"]) == (4, second.epoch, 7)


async def test_a_probe_ends_before_the_next_tick_whatever_was_asked(
    engines: EngineClient, wish: Wishing
) -> None:
    engine = FakeEngine()
    wish(a_probe(seconds=100))
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    assert engine.posted[0]["deadlineSeconds"] == 9.5


async def test_every_probe_has_an_id_of_its_own(engines: EngineClient, wish: Wishing) -> None:
    engine = FakeEngine()
    wish(a_probe())
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert len({body["id"] for body in engine.posted}) == 2


async def test_observe_never_probes(engines: EngineClient, wish: Wishing) -> None:
    engine = FakeEngine()
    wish(a_probe())
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OBSERVE)])
        with world.loop(engines) as loop:
            await step(loop)
    assert engine.posted == []


async def test_a_pod_that_did_not_confirm_the_table_is_not_probed(
    engines: EngineClient, wish: Wishing
) -> None:
    engine = FakeEngine(lies=True, schedule=[{"numSpeculativeTokens": 0}])
    wish(a_probe())
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    assert engine.posted == []


async def test_a_pod_that_is_gone_is_not_probed(engines: EngineClient, wish: Wishing) -> None:
    engine = FakeEngine()
    wish(a_probe("default/gone"))
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    assert engine.posted == []


async def test_a_failed_probe_is_shown_and_the_table_stays_converged(
    engines: EngineClient, wish: Wishing
) -> None:
    engine = FakeEngine(probes=False)
    wish(a_probe())
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    found = world.condition("ActuationConverged")
    assert found is not None
    assert found["status"] == "True"
    assert "probe of K 1, 0 at batch 7-12 on default/engine-0: no probes in" in found["message"]


async def test_a_probe_under_way_is_no_failure(engines: EngineClient, wish: Wishing) -> None:
    engine = FakeEngine()
    wish(a_probe())
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    found = world.condition("ActuationConverged")
    assert found is not None
    assert found["message"] == "1/1 at epoch 1."


@pytest.mark.parametrize(("probes", "seconds"), [(True, 2.0), (False, 0.0)])
async def test_the_time_of_a_probe_is_counted_where_it_began(
    engines: EngineClient, wish: Wishing, probes: bool, seconds: float
) -> None:
    wish(a_probe())
    async with serving(FakeEngine(probes=probes)) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    labels = {"model_namespace": "default", "model": "m"}
    assert world.own_metric("outrider_model_probe_seconds_total", **labels) == seconds
