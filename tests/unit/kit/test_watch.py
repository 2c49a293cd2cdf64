"""What a watch keeps of a model's status."""

from __future__ import annotations

from datetime import UTC, datetime

from examples.kit.watch import Watch
from outrider.api.status import (
    DecisionRecord,
    SpeculationState,
    SpeculationStatus,
    Speedup,
    SpeedupReference,
    Status,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_decision(to: str, *, second: int = 0) -> DecisionRecord:
    return DecisionRecord(time=NOON.replace(second=second), from_="*:3", to=to, reason="BetterK")


def test_a_decision_that_is_seen_twice_is_kept_once_and_the_oldest_first() -> None:
    watch = Watch()
    watch.note(Status(decisions=[a_decision("*:5", second=1)]), now=1.0)
    watch.note(Status(decisions=[a_decision("*:1", second=2), a_decision("*:5", second=1)]), now=3.0)
    assert [one.to_table for one in watch.decisions] == ["*:5", "*:1"]


def test_a_gain_that_is_measured_later_completes_its_decision() -> None:
    watch = Watch()
    watch.note(Status(decisions=[a_decision("*:1")]), now=1.0)
    measured = a_decision("*:1").model_copy(update={"measured_gain": 1.2})
    watch.note(Status(decisions=[measured]), now=3.0)
    assert [one.measured_gain for one in watch.decisions] == [1.2]


def test_a_reported_speedup_is_kept_with_the_time_that_it_was_measured_at() -> None:
    speedup = Speedup(ratio=1.5, low=1.4, high=1.6, reference=SpeedupReference.PROBE, measured_at=NOON)
    speculation = SpeculationStatus(state=SpeculationState.ACTIVE, epoch=7, speedup=speedup)
    watch = Watch()
    watch.note(Status(speculation=speculation), now=1.0)
    assert watch.last is not None
    assert watch.last.speedup is not None
    assert (watch.last.epoch, watch.last.speedup.measured_at) == (7, NOON.timestamp())
