"""A table on the wire: read, or refused with the row that is wrong."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.api.schedule import Schedule, Tier

ODD = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
NUMBERS = st.integers(-1, 12) | st.just(10**9) | st.just(10**5_000) | ODD
ROWS = st.fixed_dictionaries({"numSpeculativeTokens": NUMBERS}, optional={"maxBatchSize": NUMBERS})
WIRES = st.recursive(ODD, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner))


TABLES = st.builds(
    lambda limits, ks: Schedule(tuple(map(Tier, [*sorted(limits), None], ks))),
    st.sets(st.integers(1, 10**9 - 1), max_size=4),
    st.lists(st.integers(0, 10**9 - 1), min_size=5, max_size=5),
)


@settings(max_examples=60)
@given(st.lists(ROWS | WIRES, max_size=3) | WIRES)
def test_whatever_is_said_is_a_table_or_a_complaint(rows: object) -> None:
    with suppress(ValueError):
        assert Schedule.from_wire(rows).tiers


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
        ([{"numSpeculativeTokens": True}], "row 0: numSpeculativeTokens must be a whole number"),
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
