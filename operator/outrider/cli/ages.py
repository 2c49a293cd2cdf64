"""How long ago something was, in one word."""

from __future__ import annotations

from datetime import datetime


def age(moment: datetime, now: datetime) -> str:
    """Such as 42s, 4m, 3h or 2d; both times aware."""
    seconds = max(0, round((now - moment).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
