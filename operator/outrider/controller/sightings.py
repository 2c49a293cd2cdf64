"""Which Leases are held, by what one process sees of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from outrider.cluster.installation import Installation

_FARTHEST_SECONDS = 365 * 86_400
"""Maximum distance of a term from the present time. A higher one is invalid, and would block later
leaders."""


def plausible(seen: Iterable[Installation], *, now: float) -> list[Installation]:
    """Those whose term a later one may exceed. now: unix seconds."""
    return [each for each in seen if each.term < now + _FARTHEST_SECONDS]


class Sightings:
    """Finds live installations by changes of their Leases between two reads, not by their clocks.

    For a Lease that is seen for the first time, its own times count.

    slack: time for which such a Lease counts as held after it ran out by the clocks of both.
    """

    def __init__(self, *, slack: timedelta = timedelta()) -> None:
        self._slack = slack
        self._changed: dict[tuple[str, str], tuple[Installation, float]] = {}

    def alive(self, seen: Iterable[Installation], *, at: float, now: datetime) -> list[Installation]:
        """The installations whose Lease is held and was renewed in time.

        at: monotonic seconds. now: wall clock.
        """
        self._changed = {_lease(each): (each, self._changed_at(each, at, now)) for each in seen}
        return [
            each
            for each, changed_at in self._changed.values()
            if each.holder and at - changed_at < each.lasts.total_seconds()
        ]

    def _changed_at(self, each: Installation, at: float, now: datetime) -> float:
        before = self._changed.get(_lease(each))
        if before is None:
            # A sum of dates could exceed the calendar.
            return at if now - each.renewed < each.lasts + self._slack else float("-inf")
        same = (before[0].holder, before[0].renewed) == (each.holder, each.renewed)
        return before[1] if same else at


def _lease(each: Installation) -> tuple[str, str]:
    return each.namespace, each.lease
