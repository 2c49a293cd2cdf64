"""The speedup in status: printed once it is known, forgotten when nothing serves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outrider.api.crd import PRINTER_COLUMNS
from outrider.controller.tune import model_tuner
from outrider.engine.client import EngineClient
from outrider.tuning.decision import Decision, Reference, Speedup
from outrider.tuning.tick_context import TickContext
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning.launching import with_outlook
from tests.unit.tuning_loop.factories import NOW, TICK, World, a_model, step

Measuring = Callable[..., None]
KNOWN = Speedup(1.42, 1.34, 1.50, Reference.PROBE, NOW, known=True)
VAGUE = Speedup(1.70, 0.73, 3.97, Reference.PRIOR, NOW, known=False)


@pytest.fixture
def law(monkeypatch: pytest.MonkeyPatch) -> Measuring:
    """Makes the law find these speedups, one per tick; then none."""
    decide = model_tuner.decide  # type: ignore[attr-defined]

    def measuring(*speedups: Speedup | None) -> None:
        left = list(speedups)

        def decided(context: TickContext) -> Decision:
            return with_outlook(decide(context), speedup=left.pop(0) if left else None)

        monkeypatch.setattr(model_tuner, "decide", decided)

    return measuring


def reported(world: World) -> dict[str, str] | None:
    found = world.speculation.get("speedup")
    assert found is None or isinstance(found, dict)
    return found


async def test_a_speedup_that_is_known_is_summed_up_with_its_interval(
    engines: EngineClient, law: Measuring
) -> None:
    law(KNOWN)
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    found = reported(world)
    assert found is not None
    assert (found["summary"], found["ratio"]) == ("1.42 ±0.08", "1.42")


async def test_a_speedup_that_is_not_known_has_an_interval_and_no_summary(
    engines: EngineClient, law: Measuring
) -> None:
    law(KNOWN, VAGUE)
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            for _ in range(2):
                await step(loop)
                world.now += TICK
    found = reported(world)
    assert found is not None
    assert (found["low"], found["high"]) == ("0.73", "3.97")
    assert "summary" not in found


async def test_a_speedup_stays_while_it_is_not_measured_and_is_forgotten_when_no_replica_serves(
    engines: EngineClient, law: Measuring
) -> None:
    law(KNOWN)
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            world.now += TICK
            await step(loop)
            assert reported(world) is not None
            world.now += TICK
            world.change(pods=())
            await step(loop)
            assert reported(world) is None
            world.now += TICK
            world.change(pods=tuple(pods))
            await step(loop)
            assert reported(world) is None


def test_the_column_prints_the_summary() -> None:
    column = next(column for column in PRINTER_COLUMNS if column["name"] == "Speedup")
    assert column["jsonPath"] == ".status.speculation.speedup.summary"
