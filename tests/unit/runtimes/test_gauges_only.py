"""A runtime with gauges only and without control of running engines is read, observed and reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from outrider.api.tuning import TuningMode
from outrider.engine.client import EngineClient
from outrider.runtimes import dialects
from outrider.runtimes.control import NO_CONTROL
from outrider.telemetry.promql import selector
from outrider.telemetry.series import PodKey, PodSeries, Unreadable
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.window import Gap, GapReason, Window
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.runtimes.scratch import DIALECT, LENGTH, RATE, RUNNING, SPEED, registered
from tests.unit.telemetry.engine_pages import A, Engines, page
from tests.unit.tuning_loop.factories import TICK, World, a_model, step


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with registered():
        yield


def a_page(*, running: float = 4, speed: float = 200, length: float = 2.5, rate: float = 0.5) -> bytes:
    values = {RUNNING: running, SPEED: speed, LENGTH: length, RATE: rate}
    return "".join(f"{name} {value}\n" for name, value in values.items()).encode()


async def scraped(*pages: bytes, start: float = 100.0) -> PodSeries:
    """As its pages are read, ten seconds apart."""
    engines = Engines(a=page(b""))
    async with engines.source() as source:
        for index, body in enumerate(pages):
            engines.now, engines.answers["a"] = start + 10 * index, page(body)
            series = (await source.fetch(60))[A]
    assert not isinstance(series, Unreadable)
    return series


def window(series: PodSeries) -> Window | Gap:
    return build_window(A, series, dialect=DIALECT, since=0, until=130, max_age_seconds=30)


async def test_its_page_becomes_the_counters_of_every_runtime() -> None:
    found = window(await scraped(a_page(), a_page(), a_page(speed=100)))
    assert isinstance(found, Window)
    assert (found.seconds, found.decode_tokens, found.request_steps) == (20, 3000, 1200)
    assert (found.engine_steps, found.drafts, found.accepted_tokens) == (300, 1200, 1800)
    assert (found.draft_tokens, found.accepted_per_position, found.cells) == (3600, (), ())


async def test_without_a_gauge_the_message_says_what_cannot_be_counted() -> None:
    found = window(await scraped(f"{SPEED} 200\n".encode()))
    assert isinstance(found, Gap)
    assert found.reason is GapReason.NO_SERIES
    assert "no samples of engine steps" in found.detail


def test_prometheus_is_asked_for_the_metrics_of_both_runtimes_in_one_query() -> None:
    names = selector().partition("|(scratch_")
    assert names[0].startswith('{__name__=~"vllm:(')
    assert names[2].startswith("accept_length|scratch_accept_rate|scratch_running_requests|")
    assert dialects().of(SPEED) is DIALECT


async def test_a_tick_observes_and_reports_it_and_asks_its_engine_nothing() -> None:
    engines = EngineClient(timeout_seconds=3)
    pages = [a_page() for _ in range(4)]
    engine = FakeEngine()
    async with serving(engine) as pods:
        model = replace(a_model(*pods, mode=TuningMode.OBSERVE), metrics=DIALECT, control=NO_CONTROL)
        world = World([model])
        with world.loop(engines) as loop:
            for _ in range(3):
                await step(loop)
                world.now += TICK
                series = await scraped(*pages, start=world.now - 31)
                world.series = {PodKey("default", pods[0].name): series}
    await engines.aclose()
    assert (engine.gets, engine.puts) == (0, 0)
    metrics, active = world.condition("MetricsAvailable"), world.condition("TuningActive")
    assert metrics is not None
    assert active is not None
    assert (metrics["status"], active["reason"]) == ("True", "Observing")
    assert world.speculation["acceptanceLength"] == "2.50"
