"""Probes of K=0 while a canary, which has no drafter, needs a comparison.

If drafting pays, K=0 hardly runs, and other probes go to a K that is nearly as good as the one in force.
But a canary loses the gain of drafting on its traffic for as long as it stays. So K=0 has its own budget
meanwhile: the sooner the overhead is known, the less both cost together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext


@dataclass(frozen=True, slots=True)
class Looks:
    """Probes of K=0 until the next tick, before all others."""

    count: int
    state: TunerState  # with the rest of their budget

    @property
    def ks(self) -> tuple[int, ...]:
        """K of each probe, in order."""
        return (0,) * self.count


def looks(view: TickContext, length: float, room: float) -> Looks:
    """Return the probes of K=0 that are due; none if the schedule has K=0 here, because it runs anyway.

    An unused budget accumulates for one probe at most. Pods drift, so several probes in a row would only
    measure the same minute.

    length: of a probe, in seconds. room: seconds that probes may take until the next tick.
    """
    if not view.compares or view.bin_state.k == 0:
        return Looks(0, replace(view.state, comparison_credit=0.0))
    earned = view.policy.relaunch.canary_share * view.interval
    credit = min(view.state.comparison_credit, length) + earned
    count = int(min(credit, room) / length)
    return Looks(count, replace(view.state, comparison_credit=credit - count * length))
