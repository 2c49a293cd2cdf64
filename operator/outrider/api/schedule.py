"""The schedule: the draft length K for each batch size."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from pydantic import Field

from outrider.api.text import shortened, whole_number
from outrider.foreign import require_size
from outrider.foreign.readers import TABLE

MAX_ROWS = 64
"""Limit of rows in a schedule and in the status."""

_LARGEST = 999_999_999
"""Limit of a number in a schedule; no engine runs a billion requests at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a schedule. ``max_batch_size`` is inclusive; None means "and above"."""

    max_batch_size: int | None
    num_speculative_tokens: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule: number of scheduled requests -> ``num_speculative_tokens``.

    ``max_batch_size`` rises strictly from row to row. Only the last row is open (None), so every batch size
    has exactly one K.

    Raises:
        ValueError: the rows violate this; the message names the row.
    """

    rows: Annotated[tuple[Row, ...], Field(alias="tiers")]  # the alias is their name in stored states

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("a schedule needs at least one row")
        if len(self.rows) > MAX_ROWS:
            raise ValueError(_too_many(len(self.rows)))
        for index, (lower, upper) in enumerate(pairwise(self.rows), start=1):
            if lower.max_batch_size is None:
                raise ValueError(f"row {index - 1}: only the last row may leave out maxBatchSize")
            if upper.max_batch_size is not None and upper.max_batch_size <= lower.max_batch_size:
                raise ValueError(f"row {index}: maxBatchSize must be larger than in the row before")
        if self.rows[-1].max_batch_size is not None:
            raise ValueError(f"row {len(self.rows) - 1}: the last row must leave out maxBatchSize")
        for index, row in enumerate(self.rows):
            if row.num_speculative_tokens < 0:
                raise ValueError(f"row {index}: numSpeculativeTokens must not be negative")
            if row.max_batch_size is not None and row.max_batch_size < 1:
                raise ValueError(f"row {index}: maxBatchSize must be at least 1")

    @classmethod
    def constant(cls, num_speculative_tokens: int) -> Schedule:
        """Return a schedule with the same K for every batch size."""
        return cls((Row(None, num_speculative_tokens),))

    @classmethod
    def from_wire(cls, rows: object) -> Schedule:
        """Parse the form that ``spec``, ``status`` and the engine's control API share.

        Raises:
            ValueError: not a list of rows, or not a schedule; the message names the row.
        """
        if not isinstance(rows, list | tuple):
            raise ValueError("a schedule is a list of rows")
        if len(rows) > MAX_ROWS:
            raise ValueError(_too_many(len(rows)))
        return cls(tuple(_read(row, index) for index, row in enumerate(rows)))

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Parse the output of ``str()``, such as ``8:3,32:1,*:0``. Blanks around a row do not matter.

        Raises:
            ValueError: the text has another form; the message names the row and the expected form.
        """
        require_size(TABLE, text)
        if (rows := text.count(",") + 1) > MAX_ROWS:
            raise ValueError(_too_many(rows))
        return cls(tuple(_parsed(part.strip(), index) for index, part in enumerate(text.split(","))))

    def to_wire(self) -> list[dict[str, int]]:
        """Return the form that `from_wire` parses."""
        return [
            {"numSpeculativeTokens": row.num_speculative_tokens}
            if row.max_batch_size is None
            else {"maxBatchSize": row.max_batch_size, "numSpeculativeTokens": row.num_speculative_tokens}
            for row in self.rows
        ]

    def k_at(self, batch_size: float) -> int:
        """Return K for this number of scheduled requests."""
        for row in self.rows:
            if row.max_batch_size is None or batch_size <= row.max_batch_size:
                return row.num_speculative_tokens
        raise AssertionError("the last row is open")

    def k_at_mean(self, batch_size: float) -> int:
        """Return K at a mean batch size, rounded as in `bin_of`, because engines count requests."""
        return self.k_at(round(batch_size))

    def values(self) -> frozenset[int]:
        """Return all values of K in the schedule."""
        return frozenset(row.num_speculative_tokens for row in self.rows)

    def merged(self) -> Schedule:
        """Return the same schedule with as few rows as possible."""
        kept: list[Row] = []
        for row in self.rows:
            if kept and kept[-1].num_speculative_tokens == row.num_speculative_tokens:
                kept.pop()
            kept.append(row)
        return Schedule(tuple(kept))

    def in_ranges(self) -> str:
        """A form for people, by ranges of the batch size: ``1-8:3 9-32:1 33+:0``."""
        lows = (1, *(row.max_batch_size + 1 for row in self.rows if row.max_batch_size is not None))
        return " ".join(_range(low, row) for low, row in zip(lows, self.rows, strict=True))

    def __str__(self) -> str:
        """Return the form in one line: ``8:3,32:1,*:0``."""
        return ",".join(
            f"{'*' if row.max_batch_size is None else row.max_batch_size}:{row.num_speculative_tokens}"
            for row in self.rows
        )


def bin_of(batch_size: float, edges: Sequence[int]) -> int:
    """Return the index of a batch size's bin. A mean is rounded, because engines count requests.

    edges: inclusive upper edges; the last bin is open.
    """
    return min(bisect_left(edges, round(batch_size)), len(edges) - 1)


def bin_low(index: int, edges: Sequence[int]) -> int:
    """Return the smallest batch size of a bin."""
    return 1 if index == 0 else edges[index - 1] + 1


def geometric_bins(max_batch_size: int) -> tuple[int, ...]:
    """Return inclusive upper edges of the bins 1, 2-3, 4-6, 7-12, …, up to the first edge >= the maximum.

    Each bin is twice as wide as the one before. Powers of two, which are usual numbers of streams, are
    inside a bin and not on its edge. So small changes of load stay in one bin.
    """
    edges = [1]
    while edges[-1] < max_batch_size:
        edges.append(3 if edges[-1] == 1 else edges[-1] * 2)
    return tuple(edges)


def _range(low: int, row: Row) -> str:
    if row.max_batch_size is None:
        return f"{low}+:{row.num_speculative_tokens}"
    high = "" if row.max_batch_size == low else f"-{row.max_batch_size}"
    return f"{low}{high}:{row.num_speculative_tokens}"


def _too_many(rows: int) -> str:
    return f"{rows} rows: a schedule has {MAX_ROWS} at most"


def _parsed(text: str, index: int) -> Row:
    edge, _, k = text.partition(":")
    limit, length = whole_number(edge, most=_LARGEST), whole_number(k, most=_LARGEST)
    if length is None or (limit is None and edge != "*"):
        short = shortened(text, 40)
        raise ValueError(f"row {index}: {short!r} is not of the form 8:3 (batch size up to : K) or *:0")
    return Row(limit, length)


def _read(row: object, index: int) -> Row:
    if not isinstance(row, Mapping):
        raise ValueError(f"row {index} must have the fields maxBatchSize and numSpeculativeTokens")
    limit, k = row.get("maxBatchSize"), row.get("numSpeculativeTokens")
    return Row(
        None if limit is None else _whole(limit, f"row {index}: maxBatchSize"),
        _whole(k, f"row {index}: numSpeculativeTokens"),
    )


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value > _LARGEST:
        raise ValueError(f"{name} must be a whole number of at most {_LARGEST}")
    return value
