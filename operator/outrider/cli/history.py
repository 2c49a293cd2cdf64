"""What was in force at a time, out of the decisions that a status keeps. Pure.

Status keeps the last five decisions. Overrides and pauses are none, and nothing else stores the past.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import JsonValue

from outrider.api.conditions import rfc3339
from outrider.api.status import DecisionRecord
from outrider.cli.ages import age

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class NotATime(ValueError):
    """The message says how times are written."""


def moment(text: str, *, now: datetime) -> datetime:
    """A time such as 2026-01-01T12:00:00Z, or how long ago, such as 90s, 10m, 2h or 1d. now: aware.

    Raises:
        NotATime: neither of both, without a zone, or in the future.
    """
    ago = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if ago is not None:
        return now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise NotATime(f"--at is {text!r}, write 2026-01-01T12:00:00Z, or 10m for ten minutes ago") from error
    if found.tzinfo is None:
        raise NotATime(f"--at is {text}, which names no zone: write {text}Z")
    if found > now:
        raise NotATime(f"--at is {text}, which is yet to come")
    return found.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Past:
    """What ruled at a time."""

    at: datetime
    table: str | None  # as decided; None: no decision is stored
    made_it: DecisionRecord | None  # the decision behind it; None: it is not stored
    ended_it: DecisionRecord | None  # the next one; None: it rules still
    stored: int  # decisions


def past(records: Sequence[DecisionRecord], at: datetime) -> Past:
    """records: those of a status, newest first. What Observe would have done changed nothing."""
    done = sorted((record for record in records if not record.would), key=lambda record: record.time)
    before = [record for record in done if record.time <= at]
    after = done[len(before) :]
    made, ended = before[-1] if before else None, after[0] if after else None
    table = made.to if made is not None else ended.from_ if ended is not None else None
    return Past(at, table, made, ended, len(done))


def lines_of(found: Past, told: str) -> Iterator[str]:
    """For people. told: the model."""
    yield f"{told} at {rfc3339(found.at)}, by the last {found.stored} decisions that are stored"
    if found.table is None:
        yield "No decision changed the table yet, or all were forgotten."
        return
    yield f"table {found.table} (batch size up to : K)"
    if found.made_it is None:
        yield "  what led to it is not stored: status keeps five decisions"
    else:
        made = found.made_it
        yield f"  decided {age(made.time, found.at)} before, instead of {made.from_}"
        yield f"  {_reason(made)}"
    if found.ended_it is not None:
        ended = found.ended_it
        yield f"{age(found.at, ended.time)} later: {ended.from_} -> {ended.to}"
        yield f"  {_reason(ended)}"
    yield "An override or a pause at that time would not show here: Events have them for an hour."


def json_of(found: Past) -> dict[str, JsonValue]:
    """The same for programs."""
    return {
        "at": rfc3339(found.at),
        "table": found.table,
        "decision": _wire(found.made_it),
        "next": _wire(found.ended_it),
        "stored": found.stored,
    }


def _reason(record: DecisionRecord) -> str:
    return f"{record.reason}: {record.message}" if record.message else record.reason


def _wire(record: DecisionRecord | None) -> JsonValue:
    if record is None:
        return None
    told: JsonValue = record.model_dump(mode="json", by_alias=True, exclude_none=True)
    return told
