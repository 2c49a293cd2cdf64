"""The speculation table: which draft length K each batch size gets."""

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
"""Rows of the longest table; the status has room for as many."""

_LARGEST = 999_999_999
"""Number in a table; no engine runs a billion requests at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table. ``max_batch_size`` is inclusive; None means "and above"."""

    max_batch_size: int | None
    num_speculative_tokens: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """A table from the number of scheduled requests to ``num_speculative_tokens``.

    Rows are sorted by ``max_batch_size``, strictly rising; the last one, and only the
    last, is open (None), so every batch size has exactly one K.

    Raises:
        ValueError: the rows break that rule; the message names the row.
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
        """The same K for every batch size."""
        return cls((Row(None, num_speculative_tokens),))

    @classmethod
    def from_wire(cls, rows: object) -> Schedule:
        """Read the form that ``spec``, ``status`` and the engine's control API share.

        Raises:
            ValueError: not a list of rows, or not a table; the message names the row.
        """
        if not isinstance(rows, list | tuple):
            raise ValueError("a schedule is a list of rows")
        if len(rows) > MAX_ROWS:
            raise ValueError(_too_many(len(rows)))
        return cls(tuple(_read(row, index) for index, row in enumerate(rows)))

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """The inverse of ``str()``: ``8:3,32:1,*:0``. Blanks around a row do not matter.

        Raises:
            ValueError: not of that form; the message names the row and what it should look like.
        """
        require_size(TABLE, text)
        if (rows := text.count(",") + 1) > MAX_ROWS:
            raise ValueError(_too_many(rows))
        return cls(tuple(_parsed(part.strip(), index) for index, part in enumerate(text.split(","))))

    def to_wire(self) -> list[dict[str, int]]:
        """The inverse of `from_wire`."""
        return [
            {"numSpeculativeTokens": row.num_speculative_tokens}
            if row.max_batch_size is None
            else {"maxBatchSize": row.max_batch_size, "numSpeculativeTokens": row.num_speculative_tokens}
            for row in self.rows
        ]

    def k_at(self, batch_size: float) -> int:
        """The K that a batch of this many scheduled requests gets."""
        for row in self.rows:
            if row.max_batch_size is None or batch_size <= row.max_batch_size:
                return row.num_speculative_tokens
        raise AssertionError("the last row is open")

    def k_at_mean(self, batch_size: float) -> int:
        """The K at a mean batch size, which is rounded, as in `bin_of`: engines count requests."""
        return self.k_at(round(batch_size))

    def values(self) -> frozenset[int]:
        """Every K that the table can yield."""
        return frozenset(row.num_speculative_tokens for row in self.rows)

    def merged(self) -> Schedule:
        """The same function of batch size with as few rows as possible."""
        kept: list[Row] = []
        for row in self.rows:
            if kept and kept[-1].num_speculative_tokens == row.num_speculative_tokens:
                kept.pop()
            kept.append(row)
        return Schedule(tuple(kept))

    def __str__(self) -> str:
        """A compact form for one table cell: ``8:3,32:1,*:0``."""
        return ",".join(
            f"{'*' if row.max_batch_size is None else row.max_batch_size}:{row.num_speculative_tokens}"
            for row in self.rows
        )


def bin_of(batch_size: float, edges: Sequence[int]) -> int:
    """Index of the bin that a batch belongs to; means are rounded, since engines count requests.

    edges: inclusive upper ones; the last bin is open.
    """
    return min(bisect_left(edges, round(batch_size)), len(edges) - 1)


def bin_low(index: int, edges: Sequence[int]) -> int:
    """Smallest batch of a bin."""
    return 1 if index == 0 else edges[index - 1] + 1


def geometric_bins(max_batch_size: int) -> tuple[int, ...]:
    """Upper edges (inclusive) of the bins 1, 2-3, 4-6, 7-12, 13-24, … up to the first edge >= the maximum.

    Each bin is twice as wide as the one before. Powers of two, the usual numbers of
    streams, lie inside a bin and not on its edge, so small changes of load stay in one bin.
    """
    edges = [1]
    while edges[-1] < max_batch_size:
        edges.append(3 if edges[-1] == 1 else edges[-1] * 2)
    return tuple(edges)


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
