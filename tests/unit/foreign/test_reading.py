"""Foreign input is refused by its bytes, then by its counts, then by its types."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from outrider.foreign import InputRefused, Reader, read_as, read_json, require_room, require_size

READER = Reader("a list of numbers", most_bytes=20, most_values=5, deepest=2, cpu_seconds=1.0, peak_bytes=1)
WHOLE = TypeAdapter(list[int])

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(max_size=3), parts, max_size=4),
    max_leaves=20,
)


def reader(**limits: int) -> Reader:
    most = {"most_bytes": 10_000, "most_values": 10_000, "deepest": 100} | limits
    return Reader("anything", cpu_seconds=1.0, peak_bytes=1, **most)


def depth(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if parts is None else 1 + max(map(depth, parts), default=0)


def count(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, parts))


def characters(value: Any) -> int:
    if isinstance(value, dict):
        return sum(len(key) + characters(part) for key, part in value.items())
    return (
        len(value)
        if isinstance(value, str)
        else sum(map(characters, value))
        if isinstance(value, list)
        else 0
    )


def test_reads_what_is_within_the_limits() -> None:
    assert read_as(READER, "[1, 2, 3]", WHOLE) == [1, 2, 3]
    assert read_as(READER, b"[1, 2, 3, 4]", WHOLE) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" + " " * 18 + "]", None),
        ("[" + " " * 19 + "]", "21 characters exceed the limit of 20"),
        (b"[" + b" " * 19 + b"]", "21 bytes exceed the limit of 20"),
        ("[1,2,3,4]", None),
        ("[1,2,3,4,5]", "about 6 values exceed the limit of 5"),
        ("[[[[[]]]]]", "about 6 values exceed the limit of 5"),
        ('{"":{"":{"":{"":{}', "about 6 values exceed the limit of 5"),
        ("[[[1]]]", "nested deeper than 2 levels"),
        ("[[]]", None),
        ("[1,", "Invalid JSON: "),
        ("", "Invalid JSON: "),
        ('"\ud800"', "Invalid JSON|None"),
    ],
)
def test_the_first_limit_that_is_passed_ends_it(text: str | bytes, why: str | None) -> None:
    if why is None or why.endswith("None"):
        read_json(READER, text)
    else:
        with pytest.raises(InputRefused, match=why):
            read_json(READER, text)


def test_types_come_last() -> None:
    with pytest.raises(ValidationError):
        read_as(READER, '["x"]', WHOLE)


@pytest.mark.parametrize("size", [20, 21])
def test_a_text_is_refused_by_its_length(size: int) -> None:
    if size <= 20:
        require_size(READER, "x" * size)
    else:
        with pytest.raises(InputRefused, match="21 characters"):
            require_size(READER, "x" * size)


@given(json_values)
def test_values_are_counted_exactly(value: Any) -> None:
    require_room(reader(most_values=count(value)), value)
    if count(value) > 1:
        with pytest.raises(InputRefused, match=f"more than {count(value) - 1} values"):
            require_room(reader(most_values=count(value) - 1), value)


@given(json_values)
def test_characters_of_texts_and_keys_are_counted_exactly(value: Any) -> None:
    require_room(reader(most_bytes=characters(value)), value)
    if characters(value) > 0:
        with pytest.raises(InputRefused, match=f"more than {characters(value) - 1} characters"):
            require_room(reader(most_bytes=characters(value) - 1), value)


@given(json_values)
def test_levels_are_counted_exactly(value: Any) -> None:
    require_room(reader(deepest=depth(value)), value)
    if depth(value) > 0:
        with pytest.raises(InputRefused, match=f"nested deeper than {depth(value) - 1} levels"):
            require_room(reader(deepest=depth(value) - 1), value)


def test_counting_needs_no_stack() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InputRefused, match="nested deeper than 100000 levels"):
        require_room(reader(deepest=100_000, most_values=1_000_000), [value])
