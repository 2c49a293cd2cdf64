"""Ordered checks between a proposed change and the schedule; the first veto counts.

To add one, write a function, append it to its tuple at the end, and test it. `SIGHT` checks that there is
something to decide on, `STEP` whether K may change, and `PROBING` whether other K may be probed now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from outrider.api.reasons import DecisionReason
from outrider.tuning import messages
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
from outrider.tuning.tick_context import TickContext


@dataclass(frozen=True, slots=True)
class Veto:
    """A reason to hold, with its sentence."""

    reason: DecisionReason
    sentence: str


@dataclass(frozen=True, slots=True)
class Sight:
    """The observations of a tick."""

    observations: Sequence[Observation]
    readings: Readings


@dataclass(frozen=True, slots=True)
class Step:
    """A change of the chosen K that the tuner proposes."""

    k: int
    view: TickContext
    revert: bool = False  # back to the K before


NOTHING_SEEN = Veto(DecisionReason.NO_TRAFFIC, "no tokens were generated")


def gap(sight: Sight) -> Veto | None:
    """Hold while a pod has no usable measurement, or no pod was measured.

    A pod without two new samples holds the tuner only while no other pod has a window. Scrapes of pods are
    not simultaneous, so with short ticks the pods never all have a window at once.
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
        f"{len(gaps)}/{len(sight.observations)} pods are not measured; {first.pod}: {first.reason}{detail}",
    )


def mixed_window(sight: Sight) -> Veto | None:
    """Hold if no window measures a single K."""
    if sight.readings.bin is not None or not sight.readings.mixed:
        return None
    return Veto(DecisionReason.MIXED_WINDOW, "load or schedule changed within the window")


def no_traffic(sight: Sight) -> Veto | None:
    """Hold if no token was generated."""
    return NOTHING_SEEN if sight.readings.bin is None else None


def acceptance_collapse(step: Step) -> Veto | None:
    """Never raise K while the acceptance rate is far below its history: a state may be corrupted."""
    settled = step.view.bin_state.k
    if step.view.state.collapsed < 2 or step.k <= settled:
        return None
    return Veto(
        DecisionReason.ACCEPTANCE_COLLAPSED,
        f"acceptance is far below its history, so K stays {settled}; check the engine's outputs",
    )


def acceptance_floor(step: Step) -> Veto | None:
    """Never raise K while hardly any draft token is accepted."""
    rates, _ = step.view.state.profile.rates(1)
    if step.k <= step.view.bin_state.k or rates[0] >= step.view.policy.safety.acceptance_floor:
        return None
    return Veto(
        DecisionReason.ACCEPTANCE_LOW,
        f"{100 * rates[0]:.0f} % of first draft tokens are accepted, so K does not rise",
    )


def kv_pressure(step: Step) -> Veto | None:
    """Never raise K while the KV cache is almost full: longer drafts need more slots."""
    if step.k <= step.view.bin_state.k:
        return None
    usage = step.view.kv_usage_ratio
    if usage is None:
        return _unknown(KV_USAGE, "K does not rise")
    if usage < step.view.policy.safety.kv_usage_limit:
        return None
    return Veto(DecisionReason.KV_PRESSURE, f"the KV cache is {100 * usage:.0f} % full, so K does not rise")


def dwell(step: Step) -> Veto | None:
    """Keep a settled K for `dwell_seconds`."""
    settled_at = step.view.bin_state.settled_at
    if settled_at is None or step.revert or _keeps_the_limit_again(step):
        return None
    left = step.view.policy.choice.dwell_seconds - (step.view.now - settled_at)
    if left <= 0:
        return None
    return Veto(
        DecisionReason.RECENT_CHANGE,
        f"K {step.k} looks better, but the last change is too recent for another {left:.0f} s",
    )


def rate_limit(step: Step) -> Veto | None:
    """Limit the changes per hour; a bin that is not settled has some more."""
    bin_state = step.view.bin_state
    if step.revert or _keeps_the_limit_again(step):
        return None
    numbers = step.view.policy.choice
    allowed = numbers.switches_per_hour + (numbers.switches_to_settle if bin_state.settled_at is None else 0)
    if bin_state.recent_switches(step.view.now) + 1 <= allowed:
        return None
    return Veto(DecisionReason.RATE_LIMITED, f"K {step.k} looks better, but K changed often in the last hour")


def queue(view: TickContext) -> Veto | None:
    """Start no probe while requests wait for a place in the batch, unless they have waited for long."""
    waiting = view.waiting
    if waiting is None:
        return _unknown(REQUESTS_WAITING, "no probe starts")
    since = view.state.queued_since
    lasts = since is not None and view.now - since >= view.policy.safety.queue_seconds
    if waiting <= 0 or lasts:
        return None
    return Veto(DecisionReason.REQUESTS_QUEUED, f"{waiting:.0f} requests wait, so no probe starts")


def kv_full(view: TickContext) -> Veto | None:
    """Start no probe while the KV cache is almost full."""
    usage = view.kv_usage_ratio
    if usage is None:
        return _unknown(KV_USAGE, "no probe starts")
    if usage < view.policy.safety.kv_usage_limit:
        return None
    return Veto(DecisionReason.KV_PRESSURE, f"the KV cache is {100 * usage:.0f} % full, so no probe starts")


def latency_slack(view: TickContext) -> Veto | None:
    """Start no probe while the present K exceeds the latency limit: then every other K does."""
    limit, k = view.policy.safety.inter_token_latency_limit, view.bin_state.k
    if limit is None or k in choice.keeping(view.belief, view.policy):
        return None
    slowest = f"K {k} takes {messages.latency(view.belief, k)} between two outputs (p90)"
    return Veto(
        DecisionReason.LATENCY_LIMIT_REACHED,
        f"{slowest}, above the limit of {1000 * limit:.0f} ms; no K keeps the limit",
    )


def collapse(view: TickContext) -> Veto | None:
    """Start no probe while the drafter may be broken."""
    if view.state.collapsed < 2:
        return None
    return Veto(DecisionReason.ACCEPTANCE_COLLAPSED, "acceptance is far below its history; check the outputs")


def uncounted_steps(view: TickContext) -> Veto | None:
    """Start no probe while engines that could run one do not count steps by batch bin and K."""
    if view.readings.exact or view.policy.exploration.probe_share <= 0:
        return None
    return Veto(DecisionReason.METRICS_GAP, "the engines do not count steps by K, so no probe starts")


def _keeps_the_limit_again(step: Step) -> bool:
    """Whether the change leads from a K above the latency limit to shorter steps."""
    view, k = step.view, step.view.bin_state.k
    broken = k not in choice.keeping(view.belief, view.policy)
    return broken and view.belief.step_seconds(step.k) < view.belief.step_seconds(k)


def _unknown(gauge: str, consequence: str) -> Veto:
    """A veto for an unknown gauge, which may have its worst value."""
    return Veto(DecisionReason.METRICS_GAP, f"not every pod reports {gauge}, so {consequence}")


SIGHT: Sequence[Callable[[Sight], Veto | None]] = (gap, mixed_window, no_traffic)
STEP: Sequence[Callable[[Step], Veto | None]] = (
    acceptance_collapse,
    acceptance_floor,
    kv_pressure,
    dwell,
    rate_limit,
)
PROBING: Sequence[Callable[[TickContext], Veto | None]] = (
    queue,
    kv_full,
    latency_slack,
    collapse,
    uncounted_steps,
)

_Seen = TypeVar("_Seen")


def first_veto(checks: Sequence[Callable[[_Seen], Veto | None]], seen: _Seen) -> Veto | None:
    """The veto of the first check with one; None without."""
    return next((veto for veto in (check(seen) for check in checks) if veto is not None), None)
