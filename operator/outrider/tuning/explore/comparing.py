"""Looks at K=0 while a launch without a drafter runs beside the others and waits to be compared.

Where drafting pays K=0 hardly runs by itself, and every other slice goes to a K that is nearly as good as the
one in force. But a canary costs its share of the traffic all that drafting gains, for as long as it stays. So
K=0 has a budget of its own meanwhile: the sooner the tax is known, the less both cost together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from outrider.tuning.state import TunerState
from outrider.tuning.view import View


@dataclass(frozen=True, slots=True)
class Looks:
    """Slices of K=0 in the time until the next tick, before all others."""

    count: int
    state: TunerState  # with what is left of their budget

    @property
    def ks(self) -> tuple[int, ...]:
        """In order."""
        return (0,) * self.count


def looks(view: View, length: float, room: float) -> Looks:
    """As many slices of K=0 as are due; none where the table has K=0 here, since it runs anyway.

    What could not be spent is saved up for one slice and no more: pods drift, so looks that follow upon one
    another would all tell of the same minute.

    length: of a slice, in seconds. room: seconds that slices may take until the next tick.
    """
    if not view.compares or view.bin_state.k == 0:
        return Looks(0, replace(view.state, comparison_credit=0.0))
    earned = view.policy.relaunch.canary_share * view.interval
    credit = min(view.state.comparison_credit, length) + earned
    count = int(min(credit, room) / length)
    return Looks(count, replace(view.state, comparison_credit=credit - count * length))
