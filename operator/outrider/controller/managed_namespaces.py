"""The models that this operator manages if several installations watch the same namespaces. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from outrider.cluster.installation import Installation


@dataclass(frozen=True, slots=True)
class ManagedNamespaces:
    """The installations that share namespaces. own: None without another installation.

    others: the live installations that watch a namespace of this one.
    """

    own: Installation | None = None
    others: tuple[Installation, ...] = ()

    def other_manager(self, namespace: str) -> Installation | None:
        """The installation that manages a namespace in place of this one; None if this one does."""
        return next((other for other in self.before if other.claim.covers(namespace)), None)

    def standing_by(self, namespace: str) -> Sequence[Installation]:
        """The installations that would manage a namespace after this one."""
        return [other for other in self.behind if other.claim.covers(namespace)]

    @property
    def before(self) -> Sequence[Installation]:
        """The installations that go before this one, in order."""
        return [other for other in self.others if self.own is not None and other.precedes(self.own)]

    @property
    def behind(self) -> Sequence[Installation]:
        """The installations on standby behind this one."""
        return [other for other in self.others if self.own is not None and self.own.precedes(other)]


def managed_namespaces(own: Installation, others: Iterable[Installation]) -> ManagedNamespaces:
    """The view of an installation that sees ``others``, all of them live."""
    sharing = [other for other in others if own.claim.overlaps(other.claim)]
    return ManagedNamespaces(own, tuple(sorted(sharing, key=lambda other: other.order)))


class Sightings:
    """Finds live installations by changes of their Leases between two reads, not by their clocks.

    For a Lease that is seen for the first time, its own times count.
    """

    def __init__(self) -> None:
        self._changed: dict[str, tuple[Installation, float]] = {}

    def alive(self, seen: Iterable[Installation], *, at: float, now: datetime) -> list[Installation]:
        """The installations whose Lease is held and was renewed in time.

        at: monotonic seconds. now: wall clock.
        """
        self._changed = {each.namespace: (each, self._changed_at(each, at, now)) for each in seen}
        return [
            each
            for each, changed_at in self._changed.values()
            if each.holder and at - changed_at < each.lasts.total_seconds()
        ]

    def _changed_at(self, each: Installation, at: float, now: datetime) -> float:
        before = self._changed.get(each.namespace)
        if before is None:
            # A sum of dates could exceed the calendar.
            return at if now - each.renewed < each.lasts else float("-inf")
        same = (before[0].holder, before[0].renewed) == (each.holder, each.renewed)
        return before[1] if same else at
