from __future__ import annotations

from datetime import UTC, datetime
from unittest.mock import create_autospec

from examples.demo.cluster import Cluster, PodCount
from examples.demo.measure import Drafts
from examples.demo.watch import Watch, differences
from outrider.api.status import DecisionRecord, Status


def a_decision(to: str) -> DecisionRecord:
    return DecisionRecord(time=datetime(2026, 1, 1, tzinfo=UTC), from_="*:3", to=to, reason="BetterK")


def a_watch() -> Watch:
    return Watch(create_autospec(Cluster), "tiny")


def test_a_decision_that_is_seen_twice_is_kept_once_and_the_oldest_first() -> None:
    watch = a_watch()
    watch.note(Status(decisions=[a_decision("*:1")]), now=1.0)
    watch.note(Status(decisions=[a_decision("*:5"), a_decision("*:1")]), now=3.0)
    assert [one.to for one in watch.decisions] == ["*:1", "*:5"]


def test_a_gain_that_is_measured_later_completes_its_decision() -> None:
    watch = a_watch()
    watch.note(Status(decisions=[a_decision("*:1")]), now=1.0)
    measured = a_decision("*:1").model_copy(update={"measured_gain": 1.2})
    watch.note(Status(decisions=[measured]), now=3.0)
    assert watch.decisions == [measured]


def test_a_status_without_speculation_is_observed_without_a_table() -> None:
    watch = a_watch()
    watch.note(Status(), now=1.0)
    assert watch.last is not None
    assert watch.last.table is None


def test_drafts_are_differences_of_counters() -> None:
    accepted, drafted = [(0.0, 10.0), (4.0, 30.0)], [(0.0, 20.0), (4.0, 60.0)]
    assert differences(accepted, drafted) == [Drafts(time=2.0, accepted=20.0, drafted=40.0)]


def test_spans_without_drafts_are_left_out() -> None:
    assert differences([(0.0, 5.0), (4.0, 5.0)], [(0.0, 9.0), (4.0, 9.0)]) == []


def test_a_counter_reset_is_left_out() -> None:
    assert differences([(0.0, 50.0), (4.0, 2.0)], [(0.0, 90.0), (4.0, 4.0)]) == []


def test_a_restarted_container_counts() -> None:
    assert PodCount({"a": 3}).restarts_since(PodCount({"a": 1})) == 2


def test_a_replaced_pod_counts() -> None:
    assert PodCount({"b": 0}).restarts_since(PodCount({"a": 0})) == 1
