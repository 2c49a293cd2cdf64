"""The schedule: which K a batch gets, its wire form and its lookup."""

from __future__ import annotations

from contextlib import suppress
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider_protocol.schedule import Row, Schedule

STEPS = Schedule((Row(8, 3), Row(32, 1), Row(None, 0)))


ODD = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
NUMBERS = st.integers(-1, 12) | st.just(10**9) | st.just(10**5_000) | ODD
ROWS = st.fixed_dictionaries({"numSpeculativeTokens": NUMBERS}, optional={"maxBatchSize": NUMBERS})
WIRES = st.recursive(ODD, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner))
TABLES = st.builds(
    lambda limits, ks: Schedule(tuple(map(Row, [*sorted(limits), None], ks))),
    st.sets(st.integers(1, 10**9 - 1), max_size=4),
    st.lists(st.integers(0, 10**9 - 1), min_size=5, max_size=5),
)


def a_wire(*rows: tuple[object, object]) -> list[dict[str, object]]:
    return [{"maxBatchSize": limit, "numSpeculativeTokens": k} for limit, k in rows]


@pytest.mark.parametrize(("batch", "k"), [(1, 3), (8, 3), (9, 1), (32, 1), (33, 0), (inf, 0)])
def test_a_batch_gets_the_k_of_the_first_row_that_reaches_it(batch: float, k: int) -> None:
    assert STEPS.k_at(batch) == k


@pytest.mark.parametrize(("mean", "k"), [(0.2, 3), (8.4, 3), (8.6, 1), (32.4, 1), (32.6, 0)])
def test_a_mean_gets_the_k_of_the_whole_batch_that_is_nearest(mean: float, k: int) -> None:
    assert STEPS.k_at_mean(mean) == k


def test_a_constant_table_has_one_k_for_all() -> None:
    assert Schedule.constant(3) == Schedule((Row(None, 3),))


def test_the_values_of_a_table_are_every_k_that_it_names() -> None:
    assert STEPS.values() == {0, 1, 3}


def test_rows_with_the_same_k_become_one() -> None:
    table = Schedule((Row(4, 3), Row(8, 3), Row(32, 0), Row(None, 0)))
    assert table.merged() == Schedule((Row(8, 3), Row(None, 0)))
    assert STEPS.merged() == STEPS


def test_the_wire_form_reads_back_as_the_same_table() -> None:
    wire = STEPS.to_wire()
    assert wire[-1] == {"numSpeculativeTokens": 0}
    assert Schedule.from_wire(wire) == STEPS


def test_the_smallest_table_that_is_allowed() -> None:
    assert Schedule.from_wire(a_wire((1, 0), (None, 0))).k_at(1) == 0


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ((), "at least one"),
        ((Row(8, 3),), "row 0: the last row must leave out maxBatchSize"),
        ((Row(8, 3), Row(8, 1), Row(None, 0)), "row 1"),
        ((Row(None, 3), Row(None, 1)), "row 0"),
        ((Row(0, 3), Row(None, 0)), "row 0: maxBatchSize must be at least 1"),
        ((Row(8, -1), Row(None, 0)), "row 0: numSpeculativeTokens must not be negative"),
        ((Row(8, 0), Row(None, -1)), "row 1: numSpeculativeTokens must not be negative"),
    ],
)
def test_a_table_that_is_none_is_refused_with_its_row(rows: tuple[Row, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Schedule(rows)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (a_wire((True, 3), (None, 0)), "row 0: maxBatchSize must be a whole number"),
        (a_wire((8.0, 3), (None, 0)), "row 0: maxBatchSize must be a whole number"),
        (a_wire((8, 3), (None, True)), "row 1: numSpeculativeTokens must be a whole number"),
        (a_wire((8, 3), (None, "0")), "row 1: numSpeculativeTokens must be a whole number"),
        ([{"maxBatchSize": 8}], "row 0: numSpeculativeTokens must be a whole number"),
    ],
)
def test_what_is_no_whole_number_is_refused_with_its_row(
    rows: list[dict[str, object]], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        Schedule.from_wire(rows)


@settings(max_examples=60)
@given(st.lists(ROWS | WIRES, max_size=3) | WIRES)
def test_whatever_is_said_is_a_table_or_a_complaint(rows: object) -> None:
    with suppress(ValueError):
        assert Schedule.from_wire(rows).rows


@given(TABLES)
def test_a_table_is_read_back(table: Schedule) -> None:
    assert Schedule.from_wire(table.to_wire()) == table
    assert Schedule.parse(str(table)) == table


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (5, "a schedule is a list of rows"),
        ("8:3", "a schedule is a list of rows"),
        ({"numSpeculativeTokens": 3}, "a schedule is a list of rows"),
        ([3], "row 0 must have the fields"),
        ([{"numSpeculativeTokens": 10**9}], "row 0: numSpeculativeTokens must be a whole number"),
        (
            [{"maxBatchSize": "8", "numSpeculativeTokens": 3}],
            "row 0: maxBatchSize must be a whole number",
        ),
        ([{"maxBatchSize": 8, "numSpeculativeTokens": 3}], "row 0: the last row must leave out"),
    ],
)
def test_what_is_no_table_is_refused_in_words(rows: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Schedule.from_wire(rows)


@given(TABLES, st.integers(1, 64))
def test_the_lookup_gives_each_batch_size_the_k_of_its_row(table: Schedule, max_num_seqs: int) -> None:
    lookup = table.dense(max_num_seqs)
    assert lookup == (0, *(table.k_at(size) for size in range(1, max_num_seqs + 1)))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=100))
def test_a_schedule_is_read_from_its_lookup(ks: list[int]) -> None:
    lookup = (0, *ks)
    table = Schedule.from_lookup(lookup)
    assert table.dense(len(ks)) == lookup
    assert table == table.merged()


def test_rows_are_counted_before_any_is_read() -> None:
    with pytest.raises(ValueError, match="100000 rows: a schedule has 64 at most"):
        Schedule.from_wire([None] * 100_000)
    with pytest.raises(ValueError, match="65 rows: a schedule has 64 at most"):
        Schedule.parse("?," * 64 + "?")
    with pytest.raises(ValueError, match="row 0: "):
        Schedule.parse("?," * 63 + "?")


def test_a_text_that_is_longer_than_any_table_is_not_taken_apart() -> None:
    with pytest.raises(ValueError, match="250000 characters exceed the limit of 4096"):
        Schedule.parse(" " * 250_000)
