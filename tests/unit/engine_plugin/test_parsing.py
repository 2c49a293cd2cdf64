"""Request bodies: what is read of them, and how the rest is refused."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outrider_engine.control.parsing import number_up_to, parse_schedule, whole_number
from outrider_protocol.control_api import Reason, Refusal
from outrider_protocol.schedule import Row, Schedule

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["maxBatchSize", "numSpeculativeTokens", "other"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@st.composite
def tables(draw: st.DrawFn) -> Schedule:
    sizes = sorted(draw(st.sets(st.integers(1, 300), max_size=6)))
    ks = st.integers(0, 8)
    return Schedule((*(Row(size, draw(ks)) for size in sizes), Row(None, draw(ks))))


_NUMBERS = st.integers(1, 9) | st.sampled_from([0, -1, 8.0, True, None, "8", 2**53])


@st.composite
def nearly_tables(draw: st.DrawFn) -> list[dict[str, object]]:
    """The wire form of a table; in half of the cases one of its fields is anything."""
    rows: list[dict[str, object]] = [dict(row) for row in draw(tables()).to_wire()]
    if draw(st.booleans()):
        field = draw(st.sampled_from(["maxBatchSize", "numSpeculativeTokens", "other"]))
        draw(st.sampled_from(rows))[field] = draw(_NUMBERS)
    return rows


@given(tables())
def test_the_wire_form_reads_back_as_the_same_table(table: Schedule) -> None:
    assert parse_schedule(table.to_wire()) == table


def read(value: object) -> Schedule | Reason:
    """The table of any JSON, or why it is none."""
    try:
        return parse_schedule(value)
    except Refusal as refusal:
        return refusal.reason


@given(nearly_tables())
def test_json_that_is_read_as_a_table_reads_back_as_the_same(value: object) -> None:
    table = read(value)
    assume(isinstance(table, Schedule))
    assert isinstance(table, Schedule)
    assert read(table.to_wire()) == table


@given(JSON | nearly_tables())
def test_any_json_is_either_a_table_or_malformed(value: object) -> None:
    reason = read(value)
    assume(isinstance(reason, Reason))
    assert reason is Reason.MALFORMED


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([], "schedule"),
        ({}, "schedule"),
        ([3], "schedule[0]"),
        ([{"maxBatchSize": 8}], "numSpeculativeTokens"),
        ([{"numSpeculativeTokens": -1}], "schedule[0].numSpeculativeTokens"),
        ([{"numSpeculativeTokens": True}], "schedule[0].numSpeculativeTokens"),
        ([{"numSpeculativeTokens": 2**53}], "schedule[0].numSpeculativeTokens"),
        ([{"maxBatchSize": 0, "numSpeculativeTokens": 1}], "schedule[0].maxBatchSize"),
        ([{"maxBatchSize": 8, "numSpeculativeTokens": 1}], "the last row"),
        ([{"numSpeculativeTokens": 1}, {"numSpeculativeTokens": 1}], "only the last row"),
        ([{"numSpeculativeTokens": 1, "k": 1}], "an unknown key"),
    ],
)
def test_a_malformed_table_is_refused_by_name(rows: object, named: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_schedule(rows)
    assert refused.value.reason is Reason.MALFORMED
    assert named in refused.value.message


@pytest.mark.parametrize("second", [4, 3])
def test_rows_must_rise(second: int) -> None:
    rows = [
        {"maxBatchSize": 4, "numSpeculativeTokens": 3},
        {"maxBatchSize": second, "numSpeculativeTokens": 1},
        {"numSpeculativeTokens": 0},
    ]
    with pytest.raises(Refusal, match="must be larger"):
        parse_schedule(rows)


@pytest.mark.parametrize("value", [0.001, 1, 60, 60.0])
def test_a_number_within_its_limits_is_taken(value: float) -> None:
    assert number_up_to(value, "seconds", 60.0) == value


@pytest.mark.parametrize("value", [0, -0.5, 60.001, nan, inf, -inf, True, "1", None, 10**400])
def test_a_number_beyond_its_limits_is_malformed(value: object) -> None:
    with pytest.raises(Refusal, match="seconds must") as refusal:
        number_up_to(value, "seconds", 60.0)
    assert refusal.value.reason is Reason.MALFORMED


@pytest.mark.parametrize("value", [1, 2**53 - 1])
def test_a_whole_number_within_its_limits_is_taken(value: int) -> None:
    assert whole_number(value, "term", at_least=1) == value


@pytest.mark.parametrize("value", [0, -1, 2**53, 1.0, True, "1", None])
def test_a_whole_number_beyond_its_limits_is_malformed(value: object) -> None:
    with pytest.raises(Refusal, match="term must") as refusal:
        whole_number(value, "term", at_least=1)
    assert refusal.value.reason is Reason.MALFORMED
