"""A wall clock that was two hours ahead for a while, as after the boot of a machine."""

from __future__ import annotations

import json
from dataclasses import replace

from outrider.api.tuning import TuningMode
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.tune.engine_tables import PodMetricsReader, Span
from outrider.engine.client import EngineClient
from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry.series import PodKey
from outrider.tuning.observe.window import Window
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import NOW, World, a_model, scraped_every_5_s, step

AHEAD = 7200.0
POD = PodKey("default", "engine-0")


def active(world: World) -> str:
    condition = world.condition("TuningActive")
    assert condition is not None
    return condition["reason"]


async def test_decisions_rest_no_longer_than_after_any_change_of_replicas(engines: EngineClient) -> None:
    async with serving(FakeEngine("a"), FakeEngine("b")) as (one, other):
        world = World([a_model(one)])
        with world.loop(engines) as loop:
            world.now = NOW + AHEAD
            await step(loop)
            world.change(pods=(one, other))
            await step(loop)
            world.now = NOW
            await step(loop)
            assert active(world) == "ReplicasSettling"
            world.now = NOW + 31
            await step(loop)
            assert active(world) == "Tuning"


def test_a_span_that_begins_in_the_future_begins_now() -> None:
    measured = {POD: scraped_every_5_s(plugin=True)}
    span = Span(until=NOW + AHEAD)
    now = PodMetricsReader(POD.namespace, DIALECT, measured, NOW, max_age=30)
    span.next_window(POD.pod, now)
    assert span.until == NOW
    assert isinstance(span.next_window(POD.pod, replace(now, now=NOW + 20)), Window)
    assert NOW < span.until <= NOW + 20


async def test_what_was_learnt_and_stored_by_a_clock_ahead_is_of_now_in_the_next_process(
    engines: EngineClient,
) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        world.now = NOW + AHEAD
        with world.loop(engines) as loop:
            await step(loop)
            await loop._close_all()
        kept = json.loads(world.kept["uid-of-m"])
        kept["state"]["state"]["fallback"]["until"] = NOW + AHEAD + 1800
        kept["relaunches"]["canary_at"] = NOW + AHEAD
        world.kept["uid-of-m"] = json.dumps(kept)
        world.now = NOW
        with world.loop(engines) as loop:
            await step(loop)
            await loop._close_all()
    stored = json.loads(world.kept["uid-of-m"])
    assert stored["state"]["state"]["fallback"]["until"] == NOW + 1800
    assert stored["relaunches"]["canary_at"] == NOW


async def test_status_and_state_are_written_though_they_were_written_in_the_future(
    engines: EngineClient,
) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            world.now = NOW + AHEAD
            await step(loop)
            writes = world.writes
            world.now = NOW
            await step(loop)
            assert world.writes == writes + 1


async def test_a_state_that_cannot_be_read_is_waited_for_no_longer(engines: EngineClient) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, mode=TuningMode.AUTO)])
        world.hang("read", "m")
        world.now = NOW + AHEAD
        with world.loop(engines) as loop:
            await loop.tick()
            world.now = NOW
            await loop.tick()
            assert not world.statuses
            world.now = NOW + world.lease + 1
            await step(loop)
            assert world.statuses
            await loop._close_all()


def test_demand_is_shown_for_a_minute_and_not_until_the_clock_was() -> None:
    metrics = OwnMetrics()
    metrics.demand.show("ns", "m", required_replicas=2, saturation_ratio=0.5, now=NOW + AHEAD)
    labels = {"namespace": "ns", "model": "m"}
    for later, shown in ((0, 2), (60, 2), (61, None)):
        metrics.demand.forget_stale(now=NOW + later)
        assert metrics.registry.get_sample_value("outrider_required_replicas", labels) == shown
