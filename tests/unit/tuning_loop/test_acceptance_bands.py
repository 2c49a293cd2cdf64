"""`DrafterHealthy`: the guides' bands, from counters of drafted and accepted tokens to the condition."""

from __future__ import annotations

import pytest

from outrider.api.reasons import DrafterReason
from outrider.engine.client import EngineClient
from outrider.telemetry.series import PodKey, PodSeries
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.telemetry.factories import Counters, a_series
from tests.unit.tuning_loop.factories import NOW, World, a_model, step

TICK = 10
K = 3


def under_load(*, rate: float, seconds: int = 120, since: Counters | None = None) -> PodSeries:
    """Of a stock engine that accepts this share of the tokens that it drafts."""
    counters, scrapes = since or Counters(), list[tuple[float, Counters]]()
    for i in range(seconds // 5):
        scrapes.append((NOW + 5 * i + 1, counters))
        counters = counters.ran(k=K, accepted=K * rate)
    return a_series(*scrapes)


async def health(engines: EngineClient, series: PodSeries, *, ticks: int = 4) -> dict[str, str] | None:
    """The condition after some ticks."""
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)], series={PodKey("default", "engine-0"): series})
        with world.loop(engines) as loop:
            for _ in range(ticks):
                await step(loop)
                world.now += TICK
        return world.condition("DrafterHealthy")


@pytest.mark.parametrize(
    ("rate", "status", "reason"),
    [
        (0.95, "True", DrafterReason.EXCELLENT),
        (0.81, "True", DrafterReason.EXCELLENT),
        (0.79, "True", DrafterReason.GOOD),
        (0.61, "True", DrafterReason.GOOD),
        (0.59, "True", DrafterReason.MARGINAL),
        (0.51, "True", DrafterReason.MARGINAL),
        (0.49, "False", DrafterReason.POOR),
        (0.02, "False", DrafterReason.POOR),
    ],
)
async def test_the_share_of_accepted_tokens_falls_into_a_band(
    engines: EngineClient, rate: float, status: str, reason: DrafterReason
) -> None:
    found = await health(engines, under_load(rate=rate))
    assert found is not None
    assert (found["status"], found["reason"]) == (status, reason)
    assert f"{rate:.0%} of the drafted tokens" in found["message"]


async def test_nothing_is_said_where_nothing_was_drafted(engines: EngineClient) -> None:
    idle = a_series(*((NOW + 5 * i + 1, Counters()) for i in range(24)))
    assert await health(engines, idle) is None
