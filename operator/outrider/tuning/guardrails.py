"""Checks between a wish and the table. Ordered; the first veto wins.

To add one: write a function of this shape, put it into `SIGHT` or `STEP`, and test it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from outrider.tuning.attribution import Readings
from outrider.tuning.decision import DecisionReason, Wish
from outrider.tuning.view import View
from outrider.tuning.window import Gap, Observation


@dataclass(frozen=True, slots=True)
class Veto:
    """Hold, and why."""

    reason: DecisionReason
    sentence: str


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen at a tick."""

    observations: Sequence[Observation]
    readings: Readings


@dataclass(frozen=True, slots=True)
class Step:
    """A change that the law would like to make."""

    wish: Wish
    k: int  # wanted
    view: View  # before the step


NOTHING_SEEN = Veto(DecisionReason.NO_TRAFFIC, "no tokens were generated")


def gap(sight: Sight) -> Veto | None:
    """Hold while a pod has no usable measurement, or nobody was asked."""
    if not sight.observations:
        return Veto(DecisionReason.METRICS_GAP, "no pod was measured")
    gaps = [o for o in sight.observations if isinstance(o, Gap)]
    if not gaps:
        return None
    first = min(gaps, key=lambda g: (g.pod, g.reason, g.detail))
    detail = f": {first.detail}" if first.detail else ""
    return Veto(
        DecisionReason.METRICS_GAP,
        f"{len(gaps)} of {len(sight.observations)} pods not measured, {first.pod} {first.reason}{detail}",
    )


def mixed_window(sight: Sight) -> Veto | None:
    """Hold when no window speaks about a single K."""
    if sight.readings.current is not None or not sight.readings.mixed:
        return None
    return Veto(DecisionReason.MIXED_WINDOW, "load or table changed inside the window")


def no_traffic(sight: Sight) -> Veto | None:
    """Hold when nothing was generated."""
    return NOTHING_SEEN if sight.readings.current is None else None


def acceptance_collapse(step: Step) -> Veto | None:
    """Never raise K while drafts fail far more often than ever before: it may be corrupted state."""
    settled = step.view.bin_state.k
    if not step.view.state.collapsed or step.k <= settled:
        return None
    return Veto(
        DecisionReason.ACCEPTANCE_COLLAPSED,
        f"acceptance is far below its history, K stays {settled}; check the engine's outputs",
    )


def dwell(step: Step) -> Veto | None:
    """A settled K stays `dwell_seconds`."""
    settled_at = step.view.bin_state.settled_at
    if step.wish.reason is not DecisionReason.BETTER_K or settled_at is None:
        return None
    left = step.view.policy.dwell_seconds - (step.view.now - settled_at)
    return (
        Veto(DecisionReason.DWELL, f"K {step.k} looks better, {left:.0f} s of rest left")
        if left > 0
        else None
    )


def unconfirmed(step: Step) -> Veto | None:
    """A settled K must be beaten in neighbouring ticks."""
    ticks, needed = step.view.bin_state.rival_ticks, step.view.policy.confirm_ticks
    if step.wish.reason is not DecisionReason.BETTER_K or ticks >= needed:
        return None
    return Veto(DecisionReason.UNCONFIRMED, f"K {step.k} looks better in {ticks} of {needed} ticks")


SIGHT: tuple[Callable[[Sight], Veto | None], ...] = (gap, mixed_window, no_traffic)
"""Is there anything to decide on?"""

STEP: tuple[Callable[[Step], Veto | None], ...] = (acceptance_collapse, dwell, unconfirmed)
"""May this step be taken?"""


_Seen = TypeVar("_Seen")


def first_veto(checks: Sequence[Callable[[_Seen], Veto | None]], seen: _Seen) -> Veto | None:
    """The veto of the first check that has one."""
    return next((veto for veto in (check(seen) for check in checks) if veto is not None), None)
