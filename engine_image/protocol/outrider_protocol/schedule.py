"""The schedule: the draft length K for each batch size."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

MAX_ROWS = 64
"""Limit of rows in a schedule that is read, and in the status."""
_MAX_NUMBER = 999_999_999
"""Limit of a number in a schedule; no engine runs a billion requests at once."""
_MAX_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a schedule. ``max_batch_size`` is inclusive; None means "and above"."""

    max_batch_size: int | None
    num_speculative_tokens: int

    def to_wire(self) -> dict[str, int]:
        """``{"maxBatchSize": 8, "numSpeculativeTokens": 3}``; without maxBatchSize where it is open."""
        k = {"numSpeculativeTokens": self.num_speculative_tokens}
        return k if self.max_batch_size is None else {"maxBatchSize": self.max_batch_size, **k}


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule: number of scheduled requests -> ``num_speculative_tokens``.

    ``max_batch_size`` rises strictly from row to row. Only the last row is open (None), so every batch size
    has exactly one K.

    Raises:
        ValueError: the rows violate this; the message names the row.
    """

    rows: tuple[Row, ...] = field(metadata={"alias": "tiers", "max_length": MAX_ROWS})
    """The metadata are the name and the limit in the tuner's stored state, which pydantic reads."""

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("a schedule needs at least one row")
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
        _require_few(len(rows))
        return cls(tuple(_read(row, index) for index, row in enumerate(rows)))

    @classmethod
    def from_lookup(cls, lookup: Sequence[int]) -> Schedule:
        """Return the schedule of a lookup as `dense` makes it, with as few rows as possible."""
        rows: list[Row] = []
        batch_size = 0
        for k, run in groupby(lookup[1:]):
            batch_size += len(list(run))
            rows.append(Row(batch_size, k))
        return cls((*rows[:-1], Row(None, rows[-1].num_speculative_tokens)))

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Parse the output of ``str()``, such as ``8:3,32:1,*:0``. Blanks around a row do not matter.

        Raises:
            ValueError: the text has another form; the message names the row and the expected form.
        """
        if len(text) > _MAX_CHARACTERS:
            raise ValueError(f"{len(text)} characters exceed the limit of {_MAX_CHARACTERS}")
        _require_few(text.count(",") + 1)
        return cls(tuple(_parsed(part.strip(), index) for index, part in enumerate(text.split(","))))

    def to_wire(self) -> list[dict[str, int]]:
        """Return the form that `from_wire` parses."""
        return [row.to_wire() for row in self.rows]

    def dense(self, max_num_seqs: int) -> tuple[int, ...]:
        """K by number of scheduled requests, [max_num_seqs + 1]. Index 0 is never used and holds 0."""
        lookup = [0]
        for row in self.rows:
            upper = max_num_seqs if row.max_batch_size is None else min(row.max_batch_size, max_num_seqs)
            lookup += [row.num_speculative_tokens] * (upper - len(lookup) + 1)
        return tuple(lookup)

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


def _range(low: int, row: Row) -> str:
    if row.max_batch_size is None:
        return f"{low}+:{row.num_speculative_tokens}"
    high = "" if row.max_batch_size == low else f"-{row.max_batch_size}"
    return f"{low}{high}:{row.num_speculative_tokens}"


def _require_few(rows: int) -> None:
    if rows > MAX_ROWS:
        raise ValueError(f"{rows} rows: a schedule has {MAX_ROWS} at most")


def _parsed(text: str, index: int) -> Row:
    found = re.fullmatch(r"(\*|0*[0-9]{1,9}):(0*[0-9]{1,9})", text)
    if found is None:
        short = text if len(text) <= 40 else f"{text[:39]}…"
        raise ValueError(f"row {index}: {short!r} is not of the form 8:3 (batch size up to : K) or *:0")
    return Row(None if found[1] == "*" else int(found[1]), int(found[2]))


def _read(row: object, index: int) -> Row:
    if not isinstance(row, Mapping):
        raise ValueError(f"row {index} must have the fields maxBatchSize and numSpeculativeTokens")
    limit, k = row.get("maxBatchSize"), row.get("numSpeculativeTokens")
    return Row(
        None if limit is None else _whole(limit, f"row {index}: maxBatchSize"),
        _whole(k, f"row {index}: numSpeculativeTokens"),
    )


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value > _MAX_NUMBER:
        raise ValueError(f"{name} must be a whole number of at most {_MAX_NUMBER}")
    return value
