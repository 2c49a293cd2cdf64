"""Fencing and lease as laws."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outrider_engine.control.push import MAX_LEASE_SECONDS, Control, Limits, accept, lapse, parse_push
from outrider_protocol.control_api import Push, Reason, Refusal
from outrider_protocol.engine_state import Source
from outrider_protocol.schedule import Schedule
from tests.unit.engine_plugin.factories import a_push, a_table, some_limits

pushes = st.builds(
    a_push,
    term=st.integers(0, 3),
    epoch=st.integers(0, 3),
    table=st.sampled_from([Schedule.constant(k) for k in (0, 3, 4)]),
    lease_seconds=st.floats(0.5, 100),
)
histories = st.lists(st.tuples(pushes, st.floats(0, 80)), max_size=12)


def accepted(control: Control, push: Push, *, now: float) -> Control:
    """The control after a push, refused or not."""
    try:
        return accept(control, push, limits=some_limits(), now=now)
    except Refusal:
        return control


def after(history: list[tuple[Push, float]]) -> tuple[Control, float]:
    control, now = Control(), 0.0
    for push, pause in history:
        now += pause
        control = accepted(lapse(control, now), push, now=now)
    return control, now


def refused(control: Control, push: Push, *, now: float = 0.0) -> Reason:
    with pytest.raises(Refusal) as refusal:
        accept(control, push, limits=some_limits(), now=now)
    return refusal.value.reason


@given(histories, pushes)
def test_no_older_pair_ever_wins(history: list[tuple[Push, float]], late: Push) -> None:
    control, now = after(history)
    assume(control.last_push is not None and late.fence < control.last_push.fence)
    assert accepted(control, late, now=now) == control


@given(histories, pushes)
def test_one_pair_never_stands_for_two_tables(history: list[tuple[Push, float]], again: Push) -> None:
    control, now = after(history)
    assume(control.last_push is not None)
    assert control.last_push is not None
    later = accepted(control, replace(again, fence=control.last_push.fence), now=now)
    assert later.last_push is not None
    assert later.last_push.schedule == control.last_push.schedule


@given(histories, st.floats(0, 1000))
def test_the_pushed_table_rules_exactly_until_its_lease_ends(
    history: list[tuple[Push, float]], pause: float
) -> None:
    control, now = after(history)
    later = lapse(control, now + pause)
    alive = control.lease_ends_at is not None and now + pause < control.lease_ends_at
    assert (later.pushed_schedule is not None) == alive
    assert later.last_push == control.last_push


@given(histories, pushes)
def test_only_launched_values_are_ever_in_force(history: list[tuple[Push, float]], push: Push) -> None:
    control, now = after(history)
    table = accepted(control, push, now=now).pushed_schedule
    assert table is None or table.values() <= some_limits().captured


def test_a_k_that_failed_its_self_test_is_not_usable() -> None:
    assert Limits(16, frozenset({0, 1, 3}), failed=frozenset({3})).usable == {0, 1}


def test_nothing_pushed_is_static() -> None:
    control = Control()
    assert (control.source, control.pushed_schedule) == (Source.STATIC, None)


def test_a_newer_term_wins_over_any_epoch() -> None:
    control = accepted(Control(), a_push(term=1, epoch=900), now=0)
    control = accepted(control, a_push(term=2, epoch=1), now=0)
    assert control.last_push == a_push(term=2, epoch=1)


def test_an_older_epoch_of_the_same_term_is_stale() -> None:
    control = accepted(Control(), a_push(term=1, epoch=9), now=0)
    assert refused(control, a_push(term=1, epoch=8)) is Reason.STALE_EPOCH


def test_staleness_is_told_before_a_k_that_was_not_launched() -> None:
    control = accepted(Control(), a_push(epoch=9), now=0)
    assert refused(control, a_push(epoch=8, table=Schedule.constant(4))) is Reason.STALE_EPOCH
    assert refused(control, a_push(epoch=10, table=Schedule.constant(4))) is Reason.NOT_CAPTURED


def test_a_renewal_counts_from_its_own_time() -> None:
    control = accepted(Control(), a_push(lease_seconds=60), now=0)
    control = accepted(control, a_push(lease_seconds=60), now=50)
    assert control.lease_remaining_seconds(100) == 10


def test_tables_that_no_batch_can_tell_apart_renew() -> None:
    control = accepted(Control(), a_push(table=a_table((8, 3), above=0)), now=0)
    same = a_push(table=a_table((8, 3), (12, 0), (99, 0), above=5))
    assert accepted(control, same, now=5).last_push == same


def test_the_same_push_revives_a_lapsed_lease() -> None:
    control = lapse(accepted(Control(), a_push(lease_seconds=1), now=0), 2)
    assert control.source is Source.FALLBACK
    assert accepted(control, a_push(lease_seconds=1), now=3).source is Source.PUSHED


def test_an_older_push_stays_out_after_the_lease_lapsed() -> None:
    control = lapse(accepted(Control(), a_push(epoch=5, lease_seconds=1), now=0), 2)
    assert refused(control, a_push(epoch=4)) is Reason.STALE_EPOCH


@given(pushes)
def test_the_wire_form_reads_back_as_the_same_push(push: Push) -> None:
    assert parse_push(push.to_wire()) == push


@pytest.mark.parametrize("field", ["term", "epoch", "schedule", "leaseSeconds"])
@pytest.mark.parametrize("value", [None, "1", True, -1, [], {}])
def test_a_field_of_the_wrong_kind_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(Refusal) as refusal:
        parse_push(a_push().to_wire() | {field: value})
    assert refusal.value.reason is Reason.MALFORMED
    assert field in refusal.value.message


@pytest.mark.parametrize("field", ["term", "epoch", "schedule", "leaseSeconds"])
def test_a_missing_field_is_refused_by_name(field: str) -> None:
    body = a_push().to_wire()
    del body[field]
    with pytest.raises(Refusal, match=field):
        parse_push(body)


@pytest.mark.parametrize(
    "seconds",
    [0, -1, float("nan"), float("inf"), MAX_LEASE_SECONDS + 1, 10**400],
    ids=["zero", "negative", "not a number", "infinite", "too long", "beyond a float"],
)
def test_a_lease_without_a_sane_end_is_refused(seconds: float) -> None:
    with pytest.raises(Refusal, match="leaseSeconds"):
        parse_push(a_push().to_wire() | {"leaseSeconds": seconds})


def test_a_k_that_was_not_launched_is_refused_even_in_a_row_that_no_batch_reaches() -> None:
    limits = Limits(16, frozenset({0, 1, 2, 3, 5}))
    with pytest.raises(Refusal, match=r"without K=\[4\]") as refused:
        limits.require(a_table((8, 3), (1000, 4)).values())
    assert refused.value.reason is Reason.NOT_CAPTURED
