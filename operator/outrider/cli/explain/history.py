"""The schedule at a past time, from the decisions that a status keeps. Pure.

Status keeps the last five decisions. An override or a pause is not a decision, and is not stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import JsonValue

from outrider.api.conditions import rfc3339
from outrider.api.status import DecisionRecord
from outrider.cli.common.output import (
    CommandError,
    age,
    counted,
    in_ranges,
    reason_of,
)

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def moment(text: str, *, now: datetime) -> datetime:
    """A time such as 2026-01-01T12:00:00Z, or how long ago, such as 90s, 10m, 2h or 1d.

    now: with a zone.
    """
    ago = re.fullmatch(r"(\d{1,9})([smhd])", text)
    try:
        if ago is not None:
            return now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            found = found.astimezone(UTC)
    except OverflowError as error:
        raise CommandError(f"--at is {text}, which is before the year 1; write a later time") from error
    except ValueError as error:
        raise CommandError(
            f"--at is {text}; write 2026-01-01T12:00:00Z, or 10m for ten minutes ago"
        ) from error
    if found.tzinfo is None:
        raise CommandError(f"--at is {text}, which names no zone; write {found.isoformat()}Z")
    if found > now:
        raise CommandError(f"--at is {text}, which is in the future; write a past time")
    return found


@dataclass(frozen=True, slots=True)
class Past:
    """The schedule at a time, and the decisions around that time."""

    at: datetime
    schedule: str | None  # as decided; None: no decision is stored
    made_it: DecisionRecord | None  # the decision behind it; None: it is not stored
    ended_it: DecisionRecord | None  # the next one; None: there is none yet
    stored: int  # decisions


def past(records: Sequence[DecisionRecord], at: datetime) -> Past:
    """The schedule at a time, from the decisions of a status, newest first.

    A decision that mode Observe would have made is left out, since it changed nothing.
    """
    done = sorted((record for record in records if not record.would), key=lambda record: record.time)
    before = [record for record in done if record.time <= at]
    after = done[len(before) :]
    made, ended = before[-1] if before else None, after[0] if after else None
    schedule = made.to if made is not None else ended.from_ if ended is not None else None
    return Past(at, schedule, made, ended, len(done))


def lines_of(found: Past, model: str) -> Iterator[str]:
    """Lines for people. model: namespace and name."""
    decisions = counted(found.stored, "stored decision")
    yield f"{model} at {rfc3339(found.at)}, by the last {decisions}"
    if found.schedule is None:
        yield "No decision has changed the schedule, or the tuner was reset since."
        return
    yield f"schedule {in_ranges(found.schedule)} (batch size: K)"
    if found.made_it is None:
        yield "  the decision behind it is not stored: status keeps five decisions"
    else:
        made = found.made_it
        yield f"  decided {age(made.time, found.at)} before, instead of {in_ranges(made.from_)}"
        yield f"  {reason_of(made)}"
    if found.ended_it is not None:
        ended = found.ended_it
        yield f"{age(found.at, ended.time)} later: {in_ranges(ended.from_)} -> {in_ranges(ended.to)}"
        yield f"  {reason_of(ended)}"
    yield "An override or a pause at that time does not show here; Events have them for an hour."


def json_of(found: Past) -> dict[str, JsonValue]:
    """The same for programs."""
    return {
        "at": rfc3339(found.at),
        "schedule": found.schedule,
        "decision": _wire(found.made_it),
        "next": _wire(found.ended_it),
        "stored": found.stored,
    }


def _wire(record: DecisionRecord | None) -> JsonValue:
    if record is None:
        return None
    wire: JsonValue = record.model_dump(mode="json", by_alias=True, exclude_none=True)
    return wire
