"""A failure of one model or source stays there, and is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from outrider.api.tuning import TuningMode
from outrider.controller.tune import model_tuner
from outrider.engine.client import EngineClient
from outrider.engine.state import EngineState
from outrider.tuning.decision import Decision, Probe, Slice
from outrider.tuning.tick_context import TickContext
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import World, a_model, a_status, step

PROBE = Probe("default/engine-0", 7, 12, (Slice(1, 1.0),))
Breaking = Callable[[Exception | None], None]


@pytest.fixture
def law(monkeypatch: pytest.MonkeyPatch) -> Breaking:
    """Makes the law fail for every model that asks it; those in mode Off do not."""
    decide = model_tuner.decide  # type: ignore[attr-defined]

    def breaking(error: Exception | None) -> None:
        def decided(context: TickContext) -> Decision:
            if error is not None:
                raise error
            return decide(context)

        monkeypatch.setattr(model_tuner, "decide", decided)

    return breaking


def tuning(world: World) -> tuple[str, str] | None:
    found = world.condition("TuningActive") if world.statuses else None
    return None if found is None else (found["status"], found["reason"])


async def test_a_model_that_fails_at_every_tick_says_so_after_the_third(
    engines: EngineClient, law: Breaking
) -> None:
    law(TypeError("unhashable type: 'list'"))
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            seen = []
            for _ in range(3):
                await step(loop)
                seen.append(tuning(world))
    assert seen == [None, None, ("False", "InternalError")]
    found = world.condition("TuningActive")
    assert found is not None
    assert "TypeError: unhashable type: 'list'" in found["message"]
    assert world.own_metric("outrider_operator_tuning_failures_total") == 3


async def test_it_keeps_what_was_said_before_and_leaves_the_conditions_of_reconcile_alone(
    engines: EngineClient, law: Breaking
) -> None:
    before = a_status(k=5, generation=1)
    ready = before.conditions[0].model_copy(update={"type": "Ready"})
    status = before.model_copy(update={"conditions": [ready, *before.conditions]})
    law(TypeError("x"))
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods, status=status)])
        with world.loop(engines) as loop:
            for _ in range(5):
                await step(loop)
    conditions = world.statuses[-1]["conditions"]
    assert isinstance(conditions, list)
    assert [c["type"] for c in conditions] == ["TuningActive", "ActuationConverged"]
    assert world.speculation["schedule"] == [{"numSpeculativeTokens": 5}]


async def test_it_is_over_with_the_first_tick_that_succeeds(engines: EngineClient, law: Breaking) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            law(TypeError("x"))
            for _ in range(3):
                await step(loop)
            failing = tuning(world)
            law(None)
            await step(loop)
    assert failing == ("False", "InternalError")
    assert tuning(world) == ("True", "Tuning")


async def test_failures_that_are_not_in_a_row_are_not_told(engines: EngineClient, law: Breaking) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            for error in (TypeError("x"), TypeError("x"), None, TypeError("x"), TypeError("x")):
                law(error)
                await step(loop)
    assert "InternalError" not in str(world.statuses)
    assert tuning(world) == ("True", "Tuning")


async def test_a_model_that_fails_does_not_keep_the_others_from_their_tables(
    engines: EngineClient, law: Breaking
) -> None:
    law(RecursionError())
    healthy = FakeEngine("healthy")
    async with serving(FakeEngine("odd"), healthy) as (odd, pod):
        world = World([a_model(odd, name="odd"), a_model(pod, name="healthy", mode=TuningMode.OFF)])
        with world.loop(engines) as loop:
            for _ in range(3):
                await step(loop)
    assert healthy.puts == 3


async def test_a_defect_in_the_source_of_metrics_is_told_and_leases_are_renewed(
    engines: EngineClient,
) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)], source_error=KeyError("pod"))
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert engine.puts == 2
    found = world.condition("MetricsAvailable")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "PrometheusError")
    assert found["message"].startswith("Outrider keeps the schedule: internal error: KeyError.")


async def test_a_source_of_metrics_that_does_not_answer_is_left_while_the_lease_lasts(
    engines: EngineClient,
) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods)], source_hangs=True, lease=10.02)
        with world.loop(engines) as loop:
            async with asyncio.timeout(60):
                await step(loop)
    assert engine.puts == 1
    found = world.condition("MetricsAvailable")
    assert found is not None
    assert found["reason"] == "PrometheusUnreachable"


async def test_a_fleet_that_cannot_be_read_is_read_again_at_the_next_tick(
    engines: EngineClient,
) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods, asyncio.timeout(60):
        world = World(
            [a_model(*pods)], fleet_error=ValueError("a defect"), interval=0.01, timing={"rest": 0.0}
        )
        with world.loop(engines) as loop:
            running = asyncio.create_task(loop.run())
            while world.fleet_reads < 2:
                await asyncio.sleep(0.001)
            world.fleet_error = None
            while engine.puts == 0:
                await asyncio.sleep(0.001)
            assert not running.done()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def test_a_defect_over_a_probe_is_told_and_the_table_stays_converged(
    engines: EngineClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = model_tuner.decide  # type: ignore[attr-defined]

    async def stumbles(*_: object) -> EngineState:
        raise TypeError("a defect")

    def decided(context: TickContext) -> Decision:
        return replace(decide(context), probe=PROBE)

    monkeypatch.setattr(model_tuner, "decide", decided)
    monkeypatch.setattr(engines, "probe", stumbles)
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    found = world.condition("ActuationConverged")
    assert found is not None
    assert found["status"] == "True"
    assert "internal error, see the operator's log: TypeError" in found["message"]
