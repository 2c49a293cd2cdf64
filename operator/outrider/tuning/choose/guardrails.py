"""Checks between a wish and the table. Ordered; the first veto wins.

To add one: write a function of this shape under its decorator, and test it. `sight` asks whether there is
anything to decide on, `step` whether K may change, `trying` whether other K may be tried now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from outrider.api.reasons import DecisionReason
from outrider.tuning import words
from outrider.tuning.choose import choice
from outrider.tuning.observe.readings import Readings
from outrider.tuning.observe.window import (
    KV_USAGE,
    REQUESTS_WAITING,
    Gap,
    GapReason,
    Observation,
    Window,
)
from outrider.tuning.view import View


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
    """A change of the chosen K that the law would like to make."""

    k: int
    view: View
    revert: bool = False  # back to the K before


SightCheck = Callable[[Sight], Veto | None]
StepCheck = Callable[[Step], Veto | None]
TryCheck = Callable[[View], Veto | None]
_Check = TypeVar("_Check", SightCheck, StepCheck, TryCheck)

SIGHT: list[SightCheck] = []
STEP: list[StepCheck] = []
TRYING: list[TryCheck] = []

NOTHING_SEEN = Veto(DecisionReason.NO_TRAFFIC, "no tokens were generated")


def _in(checks: list[_Check]) -> Callable[[_Check], _Check]:
    def add(check: _Check) -> _Check:
        checks.append(check)
        return check

    return add


@_in(SIGHT)
def gap(sight: Sight) -> Veto | None:
    """Hold while a pod has no usable measurement, or nobody was asked.

    A pod without two new samples yet is waited for only while no other pod has news: scrapes come out of
    step, and with ticks shorter than the time between them all pods never have news at once.
    """
    if not sight.observations:
        return Veto(DecisionReason.METRICS_GAP, "no pod was measured")
    news = any(isinstance(o, Window) for o in sight.observations)
    gaps = [o for o in sight.observations if isinstance(o, Gap)]
    if news:
        gaps = [g for g in gaps if g.reason is not GapReason.TOO_SHORT]
    if not gaps:
        return None
    first = min(gaps, key=lambda g: (g.pod, g.reason, g.detail))
    detail = f": {first.detail}" if first.detail else ""
    return Veto(
        DecisionReason.METRICS_GAP,
        f"{len(gaps)} of {len(sight.observations)} pods not measured, {first.pod} {first.reason}{detail}",
    )


@_in(SIGHT)
def mixed_window(sight: Sight) -> Veto | None:
    """Hold when no window speaks about a single K."""
    if sight.readings.bin is not None or not sight.readings.mixed:
        return None
    return Veto(DecisionReason.MIXED_WINDOW, "load or table changed inside the window")


@_in(SIGHT)
def no_traffic(sight: Sight) -> Veto | None:
    """Hold when nothing was generated."""
    return NOTHING_SEEN if sight.readings.bin is None else None


@_in(STEP)
def acceptance_collapse(step: Step) -> Veto | None:
    """Never raise K while drafts fail far more often than ever before: it may be corrupted state."""
    settled = step.view.bin_state.k
    if step.view.state.collapsed < 2 or step.k <= settled:
        return None
    return Veto(
        DecisionReason.ACCEPTANCE_COLLAPSED,
        f"acceptance is far below its history, K stays {settled}; check the engine's outputs",
    )


@_in(STEP)
def acceptance_floor(step: Step) -> Veto | None:
    """Never raise K while hardly any draft is accepted."""
    rates, _ = step.view.state.profile.rates(1)
    if step.k <= step.view.bin_state.k or rates[0] >= step.view.policy.safety.acceptance_floor:
        return None
    return Veto(
        DecisionReason.ACCEPTANCE_LOW, f"{100 * rates[0]:.0f} % of first drafts accepted, K does not rise"
    )


@_in(STEP)
def kv_pressure(step: Step) -> Veto | None:
    """Never raise K while the KV cache is full: longer drafts need more slots."""
    if step.k <= step.view.bin_state.k:
        return None
    usage = step.view.kv_usage_ratio
    if usage is None:
        return _unknown(KV_USAGE, "K does not rise")
    if usage < step.view.policy.safety.kv_usage_limit:
        return None
    return Veto(DecisionReason.KV_PRESSURE, f"the KV cache is {100 * usage:.0f} % full, K does not rise")


@_in(STEP)
def dwell(step: Step) -> Veto | None:
    """A settled K stays `dwell_seconds`."""
    settled_at = step.view.bin_state.settled_at
    if settled_at is None or step.revert or _keeps_the_limit_again(step):
        return None
    left = step.view.policy.choice.dwell_seconds - (step.view.now - settled_at)
    if left <= 0:
        return None
    return Veto(DecisionReason.RECENT_CHANGE, f"K {step.k} looks better, {left:.0f} s of rest left")


@_in(STEP)
def rate_limit(step: Step) -> Veto | None:
    """Few changes per hour; some more while a bin is not settled."""
    bin_state = step.view.bin_state
    if step.revert or _keeps_the_limit_again(step):
        return None
    numbers = step.view.policy.choice
    allowed = numbers.switches_per_hour + (numbers.switches_to_settle if bin_state.settled_at is None else 0)
    if bin_state.recent_switches(step.view.now) + 1 <= allowed:
        return None
    return Veto(DecisionReason.RATE_LIMITED, f"K {step.k} looks better, but K changed often in the last hour")


@_in(STEP)
def launched(step: Step) -> Veto | None:
    """Only K that the engines were launched with."""
    if step.k in step.view.policy.candidates:
        return None
    return Veto(DecisionReason.NOT_A_CANDIDATE, f"K {step.k} was not launched")


@_in(TRYING)
def queue(view: View) -> Veto | None:
    """Nothing is tried while requests wait for a place, unless they have waited for long."""
    waiting = view.waiting
    if waiting is None:
        return _unknown(REQUESTS_WAITING, "nothing is tried")
    since = view.state.queued_since
    lasts = since is not None and view.now - since >= view.policy.safety.queue_seconds
    if waiting <= 0 or lasts:
        return None
    return Veto(DecisionReason.REQUESTS_QUEUED, f"{waiting:.0f} requests wait, nothing is tried")


@_in(TRYING)
def kv_full(view: View) -> Veto | None:
    """Nothing is tried while the KV cache is full."""
    usage = view.kv_usage_ratio
    if usage is None:
        return _unknown(KV_USAGE, "nothing is tried")
    if usage < view.policy.safety.kv_usage_limit:
        return None
    return Veto(DecisionReason.KV_PRESSURE, f"the KV cache is {100 * usage:.0f} % full")


@_in(TRYING)
def latency_slack(view: View) -> Veto | None:
    """Nothing is tried while the K in force breaks the SLO: then no other keeps it either."""
    limit, k = view.policy.safety.inter_token_latency_limit, view.bin_state.k
    if limit is None or k in choice.keeping(view.belief, view.policy):
        return None
    slowest = f"K {k} has {words.latency(view.belief, k)} between two outputs (p90)"
    return Veto(
        DecisionReason.LATENCY_LIMIT_REACHED,
        f"{slowest}, above the limit of {1000 * limit:.0f} ms; no K keeps the limit",
    )


@_in(TRYING)
def collapse(view: View) -> Veto | None:
    """Nothing is tried while the drafter may be broken."""
    if view.state.collapsed < 2:
        return None
    return Veto(DecisionReason.ACCEPTANCE_COLLAPSED, "acceptance is far below its history; check the outputs")


def _keeps_the_limit_again(step: Step) -> bool:
    """From a K that breaks the SLO to one with shorter steps: neither rest nor hour delay that."""
    view, k = step.view, step.view.bin_state.k
    broken = k not in choice.keeping(view.belief, view.policy)
    return broken and view.belief.step_seconds(step.k) < view.belief.step_seconds(k)


def _unknown(gauge: str, consequence: str) -> Veto:
    """What nobody measures may be at its worst."""
    return Veto(DecisionReason.METRICS_GAP, f"not every pod shows {gauge}, {consequence}")


_Seen = TypeVar("_Seen")


def first_veto(checks: Sequence[Callable[[_Seen], Veto | None]], seen: _Seen) -> Veto | None:
    """The veto of the first check that has one."""
    return next((veto for veto in (check(seen) for check in checks) if veto is not None), None)
