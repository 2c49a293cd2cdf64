"""The tuning loop around the law: who gets which table, what is reported, what goes wrong."""

from __future__ import annotations

from outrider.api.reasons import EventReason
from outrider.api.tuning import TuningMode
from outrider.engine.client import EngineClient
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import OUTAGE, World, a_model, a_status, step


async def test_tuning_off_brings_the_static_table_to_every_pod(engines: EngineClient) -> None:
    first, second = FakeEngine("a"), FakeEngine("b")
    async with serving(first, second) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF, static=Schedule.constant(1))])
        with world.loop(engines) as loop:
            await step(loop)
    assert first.schedule == second.schedule == [{"numSpeculativeTokens": 1}]
    assert world.speculation["scheduleSummary"] == "*:1"
    assert world.speculation["appliedReplicas"] == 2
    assert world.condition("MetricsAvailable") is None


async def test_an_edited_static_table_is_pushed_at_the_next_tick(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)])
        with world.loop(engines) as loop:
            await step(loop)
            epoch = engine.epoch
            world.change(static=Schedule.constant(0))
            await step(loop)
    assert engine.schedule == [{"numSpeculativeTokens": 0}]
    assert engine.epoch == epoch + 1
    assert world.speculation["state"] == "SoftOff"


async def test_each_tick_renews_the_lease_without_a_new_epoch(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)])
        with world.loop(engines) as loop:
            for _ in range(3):
                await step(loop)
    assert (engine.puts, engine.epoch) == (3, 1)


async def test_without_prometheus_the_table_stays_and_its_lease_is_renewed(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            world.outage = OUTAGE
            await step(loop)
            await step(loop)
    assert engine.puts == 3
    assert engine.epoch == 1
    found = world.condition("MetricsAvailable")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "PrometheusUnreachable")
    assert "Check prometheus.url" in found["message"]


async def test_an_outage_is_one_event_however_long_it_lasts(engines: EngineClient) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)], outage=OUTAGE)
        with world.loop(engines) as loop:
            for _ in range(4):
                await step(loop)
    assert world.events == [(EventReason.METRICS_LOST, "Warning")]


async def test_a_refusing_pod_is_not_converged_and_tried_again(engines: EngineClient) -> None:
    willing, refusing = FakeEngine("a"), FakeEngine("b", answer=(422, '{"error":{"reason":"NotCaptured"}}'))
    async with serving(willing, refusing) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)])
        with world.loop(engines) as loop:
            await step(loop)
            partial = world.condition("ActuationConverged")
            refusing.answer = None
            await step(loop)
    assert partial is not None
    assert (partial["status"], partial["reason"]) == ("False", "PartiallyApplied")
    assert partial["message"].startswith("1/2 at epoch 1; b: NotCaptured")
    healed = world.condition("ActuationConverged")
    assert healed is not None
    assert healed["status"] == "True"
    assert world.events == [
        (EventReason.ACTUATION_FAILED, "Warning"),
        (EventReason.ACTUATION_RECOVERED, "Normal"),
    ]


async def test_a_restarted_pod_gets_the_table_at_the_next_tick(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF, static=Schedule.constant(1))])
        with world.loop(engines) as loop:
            await step(loop)
            engine.restart()
            await step(loop)
    assert engine.schedule == [{"numSpeculativeTokens": 1}]


async def test_a_new_process_goes_on_with_the_reported_table(engines: EngineClient) -> None:
    reported = a_status(k=5, generation=1)
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, status=reported)], outage=OUTAGE, term=2)
        with world.loop(engines) as loop:
            await step(loop)
    assert engine.schedule == [{"numSpeculativeTokens": 5}]
    assert engine.term == 2


async def test_a_reported_table_beyond_the_candidates_is_not_taken_up(engines: EngineClient) -> None:
    reported = a_status(k=4, generation=1)
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, status=reported)], outage=OUTAGE)
        with world.loop(engines) as loop:
            await step(loop)
    assert engine.schedule == [{"numSpeculativeTokens": 3}]


async def test_a_table_reported_for_an_older_spec_is_not_taken_up(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, status=a_status(k=5, generation=0))], outage=OUTAGE)
        with world.loop(engines) as loop:
            await step(loop)
    assert engine.schedule == [{"numSpeculativeTokens": 3}]


async def test_observe_keeps_the_static_table_in_force(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OBSERVE, static=Schedule.constant(1))])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert engine.schedule == [{"numSpeculativeTokens": 1}]
    assert engine.epoch == 1


async def test_an_engine_that_cannot_tune_says_why_in_the_condition(engines: EngineClient) -> None:
    async with serving(FakeEngine(live_reason="the runner ignores K")) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    found = world.condition("ActuationConverged")
    assert found is not None
    assert found["reason"] == "LiveTuningImpossible"
    assert "the runner ignores K" in found["message"]
    assert world.speculation["state"] == "Unavailable"


async def test_without_ready_pods_nothing_is_claimed(engines: EngineClient) -> None:
    world = World([a_model()])
    with world.loop(engines) as loop:
        await step(loop)
    assert world.statuses[-1]["conditions"] == []
    assert world.speculation == {"state": "Unavailable", "appliedReplicas": 0}


async def test_a_model_with_a_defect_does_not_hold_up_the_others(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        broken = a_model(name="broken", mode=TuningMode.OFF)
        world = World([broken, a_model(*pods, mode=TuningMode.OFF)])
        world.defects["apply_status", "broken"] = RuntimeError("a defect of this model")
        with world.loop(engines) as loop:
            await step(loop)
    assert engine.puts == 1


async def test_an_unchanged_status_is_written_once(engines: EngineClient) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)])
        with world.loop(engines) as loop:
            for _ in range(5):
                world.now += 10
                await step(loop)
    assert len(world.statuses) == 1
