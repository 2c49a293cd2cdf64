from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from outrider.api.conditions import ConditionStatus, ConditionUpdate
from outrider.api.reasons import (
    DegradedReason,
    EventReason,
    ProgressingReason,
    ReadyReason,
)
from outrider.api.status import Status
from outrider.controller.reconcile.readiness import DegradedCause, blocked, judge
from outrider.controller.reconcile.report import Report, own_part, status_part, transitions
from tests.unit.controller.factories import NOW, a_pod, a_workload

SERVING = judge(a_workload(a_pod(ready=True)), NOW)
CRASHING = judge(a_workload(a_pod(restarts=3, ended=(1, "boom"))), NOW)
STARTING = judge(a_workload(a_pod()), NOW)
TAKEN = blocked(DegradedCause(DegradedReason.NAME_TAKEN, "Service m exists"))
INVALID = blocked(DegradedCause(DegradedReason.INVALID_SPEC, "spec.replicas: not a number"))


def a_report(statements: tuple[ConditionUpdate, ...] = SERVING) -> Report:
    return Report(
        statements=statements,
        wanted=2,
        replicas=1,
        ready_replicas=1,
        updated_replicas=1,
        selector="outrider.dev/model=m",
        url="http://m.default.svc",
        weights=None,
        requeue_after_seconds=None,
    )


def part(
    statements: tuple[ConditionUpdate, ...], *, before: Status | None = None, later: float = 0
) -> dict[str, Any]:
    now = NOW + timedelta(seconds=later)
    return status_part(a_report(statements), before or Status(), generation=2, now=now)


def status(statements: tuple[ConditionUpdate, ...]) -> Status:
    return Status.model_validate(part(statements))


def since(part: dict[str, Any], kind: str) -> str:
    found: str = next(entry["lastTransitionTime"] for entry in part["conditions"] if entry["type"] == kind)
    return found


def told(before: Status, statements: tuple[ConditionUpdate, ...]) -> list[EventReason]:
    return [reason for reason, _ in transitions(before, statements)]


def test_writes_nothing_of_the_tuning_loops_part() -> None:
    assert set(part(SERVING)) == {
        "observedGeneration",
        "reason",
        "serving",
        "replicas",
        "readyReplicas",
        "updatedReplicas",
        "selector",
        "url",
        "conditions",
    }


def test_writes_zero_replicas_rather_than_leaving_them_out() -> None:
    empty = replace(a_report(), wanted=0, replicas=0, ready_replicas=0, updated_replicas=0)

    told = status_part(empty, Status(), generation=1, now=NOW)
    assert (told["replicas"], told["serving"]) == (0, "0/0")


def test_says_how_many_pods_of_those_that_are_wanted_serve() -> None:
    assert part(SERVING)["serving"] == "1/2"


def test_says_not_how_many_are_wanted_where_the_spec_cannot_be_read() -> None:
    unreadable = replace(a_report(INVALID), wanted=None)

    assert "serving" not in status_part(unreadable, Status(), generation=1, now=NOW)


def test_the_one_word_for_a_model_is_the_cause_where_there_is_one() -> None:
    words = {statements: part(statements)["reason"] for statements in (SERVING, STARTING, CRASHING, TAKEN)}

    assert list(words.values()) == ["Serving", "RollingOut", "EngineCrashing", "NameTaken"]


def test_the_same_report_later_is_the_same_status() -> None:
    first = part(SERVING)

    assert part(SERVING, before=Status.model_validate(first), later=500) == first


def test_the_stored_status_reads_back_as_it_was_written() -> None:
    stored = part(TAKEN) | {"speculation": {"state": "Active"}}
    stored["conditions"] = [
        {"type": "MetricsAvailable", "status": "True", "reason": "MetricsFresh"},
        *reversed(stored["conditions"]),
    ]

    assert own_part(stored) == part(TAKEN)


def test_the_transition_time_moves_when_the_status_changes_only() -> None:
    moved = part(SERVING, before=status(STARTING), later=60)

    assert since(moved, "Ready") == "2026-01-01T12:01:00Z"
    again = part(SERVING, before=Status.model_validate(moved), later=90)
    assert since(again, "Ready") == "2026-01-01T12:01:00Z"


def test_a_model_that_is_new_and_starts_is_no_event() -> None:
    assert told(Status(), STARTING) == []


def test_tells_that_a_model_serves_once() -> None:
    assert told(status(STARTING), SERVING) == [EventReason.READY]
    assert told(status(SERVING), SERVING) == []


def test_tells_that_a_model_serves_no_more() -> None:
    assert told(status(SERVING), STARTING) == [EventReason.NOT_READY]


def test_tells_each_kind_of_trouble_once() -> None:
    assert told(Status(), TAKEN) == [EventReason.DEGRADED]
    assert told(status(TAKEN), TAKEN) == []
    assert told(status(TAKEN), INVALID) == [EventReason.DEGRADED]


def test_tells_that_trouble_is_over() -> None:
    assert told(status(TAKEN), STARTING) == [EventReason.RECOVERED]


def test_tells_that_a_pod_recovered_when_it_serves() -> None:
    assert told(status(CRASHING), SERVING) == [EventReason.READY, EventReason.RECOVERED]


def test_a_crashing_pod_that_went_away_has_not_recovered() -> None:
    assert told(status(CRASHING), STARTING) == []


def test_a_change_of_the_reason_within_ready_is_no_event() -> None:
    partly = (
        ConditionUpdate(ConditionStatus.TRUE, ReadyReason.PARTIALLY_SERVING, "1 of 2"),
        ConditionUpdate(ConditionStatus.TRUE, ProgressingReason.ROLLING_OUT, "1 of 2"),
    )

    assert told(status(SERVING), partly) == []


def test_a_trouble_of_any_length_gives_a_status_that_the_api_server_takes() -> None:
    refused = part(blocked(DegradedCause(DegradedReason.APPLY_REFUSED, "no " * 5_000)))

    assert {len(entry["message"]) for entry in refused["conditions"]} == {4096}
