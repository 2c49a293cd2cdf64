from __future__ import annotations

from collections.abc import Sequence

import pytest

from outrider.telemetry.series import PodKey
from outrider.telemetry.source import SourceUnreachable
from outrider.tuning.observe.window import Observation, Window
from outrider.tuning.policy import Policy
from outrider_lab.engines.fleet import Launch
from outrider_lab.rivals.baselines import AcceptedLengthAverage
from outrider_lab.rivals.tuners import Action
from outrider_protocol.schedule import Schedule
from tests.bench.engine.rules import RuleLoop
from tests.unit.bench_engine.factories import FakeEngine, FakeSource
from tests.unit.telemetry.factories import Counters, a_series

POD = PodKey("default", "engine-a")


class Scripted:
    """Wants one table after the other, and keeps what it was shown."""

    launch = Launch()

    def __init__(self, *ks: int) -> None:
        self._tables = [Action(Schedule.constant(k)) for k in ks]
        self.seen: list[tuple[Observation, float]] = []

    def begin(self) -> Action:
        return self._tables[0]

    def tick(self, observations: Sequence[Observation], now: float) -> Action:
        self.seen += [(one, now) for one in observations]
        return self._tables[min(len(self.seen), len(self._tables) - 1)]


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def source() -> FakeSource:
    return FakeSource()


def a_loop(rule: Scripted | AcceptedLengthAverage, engine: FakeEngine, source: FakeSource) -> RuleLoop:
    return RuleLoop(rule, source, engine, [POD], tick_seconds=10.0, clock=engine.clock)


def scraped(*times: float, accepted: float = 1.5) -> dict[PodKey, object]:
    """Steps between all scrapes."""
    counters, scrapes = Counters(), []
    for at in times:
        scrapes.append((at, counters))
        counters = counters.ran(accepted=accepted)
    return {POD: a_series(*scrapes)}


async def test_a_rule_sees_the_windows_since_its_beginning(engine: FakeEngine, source: FakeSource) -> None:
    rule = Scripted(3)
    loop = a_loop(rule, engine, source)
    engine.now = 100.0
    await loop.begin()
    source.series = scraped(95, 105, 115)  # type: ignore[assignment]
    engine.now = 116.0
    await loop.tick()
    window, now = rule.seen[0]
    assert isinstance(window, Window)
    assert (window.started_at, window.ended_at, now) == (105, 115, 16.0)


async def test_only_a_table_that_changed_is_pushed(engine: FakeEngine, source: FakeSource) -> None:
    loop = a_loop(Scripted(3, 3, 0), engine, source)
    await loop.begin()
    for engine.now in (10.0, 20.0):
        await loop.tick()
    assert engine.tables == ["*:3", "*:0"]
    assert [push.in_force for push in loop.pushes] == [0.0, 20.0]


async def test_without_cells_a_window_begins_after_the_push(engine: FakeEngine, source: FakeSource) -> None:
    rule = Scripted(3, 0)
    loop = a_loop(rule, engine, source)
    await loop.begin()
    for engine.now in (11.0, 31.0):
        source.series = scraped(0, 10, 20, 30)  # type: ignore[assignment]
        await loop.tick()
    windows = [one for one, _ in rule.seen if isinstance(one, Window)]
    assert [(one.started_at, one.ended_at) for one in windows] == [(0, 10), (20, 30)]


async def test_a_failing_source_keeps_the_table_and_is_recorded(
    engine: FakeEngine, source: FakeSource
) -> None:
    rule = Scripted(3, 0)
    loop = a_loop(rule, engine, source)
    await loop.begin()
    source.error = SourceUnreachable("refused", action="")
    await loop.tick()
    assert engine.tables == ["*:3"]
    assert rule.seen == []
    assert loop.gaps == ["refused"]


async def test_a_published_rule_climbs_on_good_drafts(engine: FakeEngine, source: FakeSource) -> None:
    rule = AcceptedLengthAverage(Policy((0, 1, 3, 5), 64))
    loop = a_loop(rule, engine, source)
    await loop.begin()
    source.series = scraped(0, 10, 20, accepted=2.9)  # type: ignore[assignment]
    engine.now = 21.0
    await loop.tick()
    assert engine.tables == ["*:3", "*:5"]
