"""What a watch keeps of a model's status."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import UTC, datetime

import pytest

from examples.kit.records import DecisionSample
from examples.kit.watch import Watch, watching
from outrider.api.status import (
    DecisionRecord,
    SpeculationState,
    SpeculationStatus,
    Speedup,
    SpeedupReference,
    Status,
)
from outrider.cluster.errors import ClusterError

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


def test_decisions_of_an_earlier_run_are_left_out() -> None:
    watch = Watch(since=NOON.timestamp() + 5)
    watch.note(Status(decisions=[a_decision("*:1", second=5), a_decision("*:2", second=4)]), now=1.0)
    assert [one.to_table for one in watch.decisions] == ["*:1"]


def test_a_decision_is_kept_in_unix_seconds() -> None:
    watch = Watch()
    watch.note(Status(decisions=[a_decision("*:1")]), now=1.0)
    assert watch.decisions == (
        DecisionSample(time=NOON.timestamp(), from_table="*:3", to_table="*:1", reason="BetterK"),
    )


def test_a_status_without_speculation_is_kept_without_a_table() -> None:
    watch = Watch()
    watch.note(Status(), now=1.0)
    assert watch.last is not None
    assert watch.last.table is None


def test_a_reported_speedup_is_kept_with_the_time_that_it_was_measured_at() -> None:
    speedup = Speedup(ratio=1.5, low=1.4, high=1.6, reference=SpeedupReference.PROBE, measured_at=NOON)
    speculation = SpeculationStatus(state=SpeculationState.ACTIVE, epoch=7, speedup=speedup)
    watch = Watch()
    watch.note(Status(speculation=speculation), now=1.0)
    assert watch.last is not None
    assert watch.last.speedup is not None
    assert (watch.last.epoch, watch.last.speedup.measured_at) == (7, NOON.timestamp())


class FakeCluster:
    """Answers with a look after the other, and reports when all are taken."""

    def __init__(self, *looks: Status | ClusterError) -> None:
        self._looks = deque(looks)
        self.taken = asyncio.Event()

    async def status(self, name: str) -> Status:  # noqa: ARG002
        if not self._looks:
            self.taken.set()
            return await asyncio.Event().wait()  # type: ignore[return-value]
        look = self._looks.popleft()
        if isinstance(look, ClusterError):
            raise look
        return look


@pytest.mark.timeout(120)
async def test_a_look_that_fails_leaves_a_gap() -> None:
    cluster = FakeCluster(Status(), ClusterError("no answer"), Status())
    async with watching(cluster, "tiny", period_seconds=0.0) as watch:  # type: ignore[arg-type]
        await cluster.taken.wait()
    assert len(watch.statuses) == 2
