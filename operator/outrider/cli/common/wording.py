"""Numbers, times and schedules as people read them. Pure."""

from __future__ import annotations

from datetime import datetime

from outrider.api.schedule import Schedule
from outrider.api.status import SpeculationStatus


def age(moment: datetime, now: datetime) -> str:
    """The time since ``moment`` in one word, such as 42s, 4m, 3h or 2d; both times have a zone."""
    seconds = max(0, round((now - moment).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as ``1 pod`` and ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def in_ranges(schedule: str) -> str:
    """A schedule by ranges of the batch size, such as ``1-8:3 9+:0``; a text that is none stays as it is."""
    try:
        return Schedule.parse(schedule).in_ranges()
    except ValueError:
        return schedule


def schedule_of(speculation: SpeculationStatus) -> str:
    """The schedule that engines confirmed, and on how many pods."""
    pods = counted(speculation.applied_replicas or 0, "pod")
    if not speculation.schedule_summary:
        return f"none confirmed, on {pods}"
    return f"{in_ranges(speculation.schedule_summary)}, on {pods} (batch size: K)"
