"""The schedule: its wire form and the dense lookup that vLLM's scheduler indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TypeAlias

from outrider_engine.control.refusal import Reason, Refusal

Lookup: TypeAlias = tuple[int, ...]
"""K by number of scheduled requests, [max_num_seqs + 1]. Index 0 is never used and holds 0."""

LARGEST_NUMBER = 2**53 - 1
"""Whole numbers above this do not survive every JSON reader, so they are malformed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a schedule. ``max_batch_size`` is inclusive; None means "and above"."""

    max_batch_size: int | None
    num_speculative_tokens: int


@dataclass(frozen=True, slots=True)
class Table:
    """A schedule: K by batch size. `parse_table` and `read_back` build it and ensure its order:
    ``max_batch_size`` increases strictly, and only the last row is open."""

    rows: tuple[Row, ...]

    @classmethod
    def constant(cls, num_speculative_tokens: int) -> Table:
        """The same K for every batch size."""
        return cls((Row(None, num_speculative_tokens),))

    def values(self) -> frozenset[int]:
        """Every K of the schedule."""
        return frozenset(row.num_speculative_tokens for row in self.rows)

    def dense(self, max_num_seqs: int) -> Lookup:
        """The lookup of this schedule in an engine of at most ``max_num_seqs`` requests."""
        lookup = [0]
        for row in self.rows:
            upper = max_num_seqs if row.max_batch_size is None else min(row.max_batch_size, max_num_seqs)
            lookup += [row.num_speculative_tokens] * (upper - len(lookup) + 1)
        return tuple(lookup)

    def to_wire(self) -> list[dict[str, int]]:
        """``[{"maxBatchSize": 8, "numSpeculativeTokens": 3}, {"numSpeculativeTokens": 0}]``."""
        return [
            {"numSpeculativeTokens": row.num_speculative_tokens}
            if row.max_batch_size is None
            else {"maxBatchSize": row.max_batch_size, "numSpeculativeTokens": row.num_speculative_tokens}
            for row in self.rows
        ]


def parse_table(value: object) -> Table:
    """Read the wire form.

    Raises:
        Refusal: `Reason.MALFORMED`; the message names the row.
    """
    if not isinstance(value, list) or not value:
        raise Refusal(Reason.MALFORMED, "schedule must be a list of at least one row")
    rows = tuple(_parse_row(row, f"schedule[{index}]") for index, row in enumerate(value))
    for index, (lower, upper) in enumerate(pairwise(rows)):
        if lower.max_batch_size is None:
            raise Refusal(Reason.MALFORMED, f"schedule[{index}]: only the last row omits maxBatchSize")
        if upper.max_batch_size is not None and upper.max_batch_size <= lower.max_batch_size:
            raise Refusal(
                Reason.MALFORMED, f"schedule[{index + 1}]: maxBatchSize must increase from row to row"
            )
    if rows[-1].max_batch_size is not None:
        raise Refusal(Reason.MALFORMED, f"schedule[{len(rows) - 1}]: the last row must omit maxBatchSize")
    return Table(rows)


def require_captured(
    values: frozenset[int], captured: frozenset[int], *, failed: frozenset[int] = frozenset()
) -> None:
    """Refuse a K that the engine was not launched with, that failed its self-test, or that its release
    computes incorrectly.

    Raises:
        Refusal: `Reason.NOT_CAPTURED`.
    """
    missing, broken = sorted(values - captured), sorted(values & failed)
    if missing:
        raise Refusal(
            Reason.NOT_CAPTURED, f"the engine was launched without K={missing}; it has {sorted(captured)}"
        )
    if broken:
        raise Refusal(
            Reason.NOT_CAPTURED,
            f"K={broken} failed this engine's self-test, or its release answers incorrectly with it",
        )


def captured_values(lookup: Sequence[int]) -> frozenset[int]:
    """The K values that an engine launched with this lookup has captured."""
    return frozenset(lookup[1:])


def read_back(lookup: Sequence[int]) -> Table:
    """The schedule of a lookup, with as few rows as possible."""
    rows: list[Row] = []
    batch_size = 0
    for k, run in groupby(lookup[1:]):
        batch_size += len(list(run))
        rows.append(Row(batch_size, k))
    rows[-1] = Row(None, rows[-1].num_speculative_tokens)
    return Table(tuple(rows))


def whole_number(value: object, name: str, *, at_least: int) -> int:
    """``value`` as a whole number in ``at_least … LARGEST_NUMBER``.

    Raises:
        Refusal: `Reason.MALFORMED`; the message holds ``name``.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not at_least <= value <= LARGEST_NUMBER:
        raise Refusal(Reason.MALFORMED, f"{name} must be a whole number of at least {at_least}")
    return value


def number_up_to(value: object, name: str, largest: float) -> float:
    """``value`` as a number above 0 and at most ``largest``.

    Raises:
        Refusal: `Reason.MALFORMED`; the message holds ``name``.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refusal(Reason.MALFORMED, f"{name} must be a number")
    if not 0 < value <= largest:  # false for NaN, too
        raise Refusal(Reason.MALFORMED, f"{name} must lie in 0 … {largest:.0f}, 0 excluded")
    return float(value)


def require_keys(
    value: object, name: str, *, needed: frozenset[str], optional: frozenset[str]
) -> Mapping[str, object]:
    """``value`` as an object with these keys and no other.

    Raises:
        Refusal: `Reason.MALFORMED`; the message holds ``name``.
    """
    if not isinstance(value, dict):
        raise Refusal(Reason.MALFORMED, f"{name} must be an object")
    missing, unknown = needed - value.keys(), value.keys() - needed - optional
    if missing or unknown:
        what = f"needs {sorted(missing)}" if missing else "has an unknown key"
        raise Refusal(Reason.MALFORMED, f"{name} {what}")
    return value


def _parse_row(value: object, name: str) -> Row:
    row = require_keys(
        value, name, needed=frozenset({"numSpeculativeTokens"}), optional=frozenset({"maxBatchSize"})
    )
    k = whole_number(row["numSpeculativeTokens"], f"{name}.numSpeculativeTokens", at_least=0)
    if row.get("maxBatchSize") is None:
        return Row(None, k)
    return Row(whole_number(row["maxBatchSize"], f"{name}.maxBatchSize", at_least=1), k)
