"""Parsing of request bodies: schedule, fence and numbers, each within its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outrider_protocol.control_api import Fence, Reason, Refusal
from outrider_protocol.schedule import Row, Schedule

MAX_NUMBER = 2**53 - 1
"""Whole numbers above this do not survive every JSON reader, so they are malformed."""


def parse_schedule(value: object) -> Schedule:
    """Read the wire form.

    Raises:
        Refusal: `Reason.MALFORMED`; the message names the row.
    """
    if not isinstance(value, list):
        raise Refusal(Reason.MALFORMED, "schedule must be a list of rows")
    rows = tuple(_parse_row(row, f"schedule[{index}]") for index, row in enumerate(value))
    try:
        return Schedule(rows)
    except ValueError as error:
        raise Refusal(Reason.MALFORMED, f"schedule: {error}") from error


def parse_fence(body: Mapping[str, object]) -> Fence:
    """Read ``term`` and ``epoch``.

    Raises:
        Refusal: `Reason.MALFORMED`; the message names the field.
    """
    return Fence(whole_number(body["term"], "term"), whole_number(body["epoch"], "epoch"))


def whole_number(value: object, name: str, *, at_least: int = 0) -> int:
    """``value`` as a whole number in ``at_least … MAX_NUMBER``.

    Raises:
        Refusal: `Reason.MALFORMED`; the message holds ``name``.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not at_least <= value <= MAX_NUMBER:
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
    value: object, name: str, *needed: str, optional: Sequence[str] = ()
) -> Mapping[str, object]:
    """``value`` as an object with these keys and no other.

    Raises:
        Refusal: `Reason.MALFORMED`; the message holds ``name``.
    """
    if not isinstance(value, dict):
        raise Refusal(Reason.MALFORMED, f"{name} must be an object")
    missing, unknown = set(needed) - value.keys(), value.keys() - {*needed, *optional}
    if missing or unknown:
        what = f"needs {sorted(missing)}" if missing else "has an unknown key"
        raise Refusal(Reason.MALFORMED, f"{name} {what}")
    return value


def _parse_row(value: object, name: str) -> Row:
    row = require_keys(value, name, "numSpeculativeTokens", optional=("maxBatchSize",))
    size = row.get("maxBatchSize")
    return Row(
        None if size is None else whole_number(size, f"{name}.maxBatchSize", at_least=1),
        whole_number(row["numSpeculativeTokens"], f"{name}.numSpeculativeTokens"),
    )
