from __future__ import annotations

from datetime import UTC, datetime, timedelta

from outrider.api.conditions import Condition, ConditionStatus, apply_transition

EARLIER = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
LATER = EARLIER + timedelta(minutes=5)


def a_condition(
    *, status: ConditionStatus = ConditionStatus.TRUE, reason: str = "Serving", since: datetime = EARLIER
) -> Condition:
    return Condition(type="Ready", status=status, reason=reason, last_transition_time=since)


def test_a_new_condition_starts_now() -> None:
    assert apply_transition(None, a_condition(), LATER).last_transition_time == LATER


def test_the_transition_time_stays_while_the_status_does() -> None:
    new = a_condition(reason="PartiallyServing", since=LATER)
    merged = apply_transition(a_condition(), new, LATER)
    assert (merged.reason, merged.last_transition_time) == ("PartiallyServing", EARLIER)


def test_the_transition_time_moves_with_the_status() -> None:
    new = a_condition(status=ConditionStatus.FALSE, reason="RollingOut")
    assert apply_transition(a_condition(), new, LATER).last_transition_time == LATER


def test_times_are_written_in_utc_with_whole_seconds() -> None:
    wire = a_condition(since=EARLIER + timedelta(milliseconds=250)).model_dump(mode="json", by_alias=True)
    assert wire["lastTransitionTime"] == "2026-01-01T12:00:00Z"


def test_a_message_of_any_length_is_kept_as_far_as_there_is_room() -> None:
    long = Condition.model_validate({**a_condition().model_dump(), "message": "no " * 5_000})

    assert len(long.message) == 4096
    assert long.message.endswith("…")
