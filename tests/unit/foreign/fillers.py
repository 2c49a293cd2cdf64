"""The values that cost a reader the most, at the size that its limits leave room for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

DEEP = 150
"""Levels; JSON's parser gives up at 200."""


def fillers(most_bytes: int, most_values: int) -> Iterator[tuple[str, Any]]:
    """Name and value. As JSON each has at most so many bytes, and so many values."""

    def count(each: int) -> int:
        return max(1, min(most_bytes // each, most_values))

    yield "numbers", [1] * count(2)
    yield "fractions", [0.5] * count(4)
    yield "long numbers", [int("9" * 4000)] * count(4001)
    yield "texts", ["x"] * count(4)
    yield "nulls", [None] * count(5)
    yield "objects", [{} for _ in range(count(3))]
    yield "lists", [[] for _ in range(count(3))]
    yield "deep lists", [nested(DEEP) for _ in range(max(1, count(2) // (2 * DEEP)))]
    yield "keys", {f"{number:x}": {} for number in range(count(10))}
    yield "keys with texts", {f"{number:x}": "x" for number in range(count(11))}
    yield "one text", "x" * most_bytes
    yield "control characters", "\x01" * (most_bytes // 6)
    yield "line feeds", "\n" * (most_bytes // 2)
    yield "wide characters", "\N{COLLISION SYMBOL}" * (most_bytes // 4)
    yield "a table", ",".join(f"{number}:3" for number in range(1, most_bytes // 9)) + ",*:0"


def nested(levels: int) -> list[Any]:
    """A list within a list, so many levels deep."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value
