"""Which models this operator manages, where several installations watch the same namespaces. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from outrider.cluster.installation import Installation


@dataclass(frozen=True, slots=True)
class ManagedNamespaces:
    """The view of one look. own: None where there is nobody to share with.

    others: the living installations that watch a namespace which this one watches.
    """

    own: Installation | None = None
    others: tuple[Installation, ...] = ()

    def other_manager(self, namespace: str) -> Installation | None:
        """Who manages a namespace in place of this operator, None where this one does."""
        return next((other for other in self.before if other.claim.covers(namespace)), None)

    def standing_by(self, namespace: str) -> Sequence[Installation]:
        """Those who would manage a namespace if this operator did not."""
        return [other for other in self.behind if other.claim.covers(namespace)]

    @property
    def before(self) -> Sequence[Installation]:
        """Those for whom this operator stands by, the first one first."""
        return [other for other in self.others if self.own is not None and other.precedes(self.own)]

    @property
    def behind(self) -> Sequence[Installation]:
        """Those who stand by for this operator."""
        return [other for other in self.others if self.own is not None and self.own.precedes(other)]


def managed_namespaces(own: Installation, others: Iterable[Installation]) -> ManagedNamespaces:
    """The view of an installation that sees ``others``, all of them alive."""
    rivals = [other for other in others if own.claim.overlaps(other.claim)]
    return ManagedNamespaces(own, tuple(sorted(rivals, key=lambda other: other.order)))


class Sightings:
    """Tells the living from the dead by what changes between two looks, not by the clocks of others.

    Only where a Lease is seen for the first time, its own times decide.
    """

    def __init__(self) -> None:
        self._changed: dict[str, tuple[Installation, float]] = {}

    def alive(self, seen: Iterable[Installation], *, at: float, now: datetime) -> list[Installation]:
        """Those whose Lease is held and was renewed not long ago.

        at: seconds of a clock that never jumps. now: wall clock.
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
            # A sum could lie beyond the calendar.
            return at if now - each.renewed < each.lasts else float("-inf")
        same = (before[0].holder, before[0].renewed) == (each.holder, each.renewed)
        return before[1] if same else at
