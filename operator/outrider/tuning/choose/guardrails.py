"""Ordered checks between a proposed change and the schedule; the first veto counts.

To add one, write a function, append it to its tuple at the end of this file, and test it. `OBSERVATIONS`
checks that there is something to decide on, `STEP` whether K may change, and `PROBING` whether other K may be
probed now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from outrider.api.reasons import DecisionReason
from outrider.tuning import messages
from outrider.tuning.choose import choice
from outrider.tuning.observe.window import (
    KV_USAGE,
    REQUESTS_WAITING,
    Gap,
    GapReason,
)
from outrider.tuning.tick_context import TickContext


@dataclass(frozen=True, slots=True)
class Veto:
    """A reason to hold, with its sentence."""

    reason: DecisionReason
    sentence: str


@dataclass(frozen=True, slots=True)
class Step:
    """A change of the chosen K that the tuner proposes."""

    k: int
    context: TickContext
    revert: bool = False  # back to the K before


def gap(context: TickContext) -> Veto | None:
    """Hold while a pod has no usable measurement, or no pod was measured.

    A pod without two new samples holds the tuner only while no other pod has a window. Scrapes of pods are
    not simultaneous, so with short ticks the pods never all have a window at once.
    """
    if not context.observations:
        return Veto(DecisionReason.METRICS_GAP, "no pod was measured")
    gaps = [o for o in context.observations if isinstance(o, Gap)]
    if context.windows:
        gaps = [g for g in gaps if g.reason is not GapReason.TOO_SHORT]
    if not gaps:
        return None
    first = min(gaps, key=lambda g: (g.pod, g.reason, g.detail))
    detail = f": {first.detail}" if first.detail else ""
    return Veto(
        DecisionReason.METRICS_GAP,
        f"{len(gaps)}/{len(context.observations)} pods are not measured; {first.pod}: {first.reason}{detail}",
    )


def mixed_window(context: TickContext) -> Veto | None:
    """Hold if no window measures a single K."""
    if context.readings.bin is not None or not context.readings.mixed:
        return None
    return Veto(DecisionReason.MIXED_WINDOW, "load or schedule changed within the window")


def no_traffic(context: TickContext) -> Veto | None:
    """Hold if no token was generated."""
    if context.readings.bin is not None:
        return None
    return Veto(DecisionReason.NO_TRAFFIC, "no tokens were generated")


def acceptance_collapse(step: Step) -> Veto | None:
    """Never raise K while the acceptance rate is far below its history: a state may be corrupted."""
    settled = step.context.bin_state.k
    if not step.context.state.learning.acceptance_collapsed or step.k <= settled:
        return None
    return Veto(
        DecisionReason.ACCEPTANCE_COLLAPSED,
        f"acceptance is far below its history, so K stays {settled}; check the engine's outputs",
    )


def acceptance_floor(step: Step) -> Veto | None:
    """Never raise K while hardly any draft token is accepted."""
    rates, _ = step.context.state.learning.profile.rates(1)
    if step.k <= step.context.bin_state.k or rates[0] >= step.context.policy.safety.acceptance_floor:
        return None
    return Veto(
        DecisionReason.ACCEPTANCE_LOW,
        f"{100 * rates[0]:.0f} % of first draft tokens are accepted, so K does not rise",
    )


def kv_pressure(step: Step) -> Veto | None:
    """Never raise K while the KV cache is almost full: longer drafts need more slots."""
    if step.k <= step.context.bin_state.k:
        return None
    usage = step.context.kv_usage_ratio
    if usage is None:
        return _unknown(KV_USAGE, "K does not rise")
    if usage < step.context.policy.safety.kv_usage_limit:
        return None
    return Veto(DecisionReason.KV_PRESSURE, f"the KV cache is {100 * usage:.0f} % full, so K does not rise")


def dwell(step: Step) -> Veto | None:
    """Keep a settled K for `dwell_seconds`."""
    settled_at = step.context.bin_state.settled_at
    if settled_at is None or step.revert or _keeps_the_limit_again(step):
        return None
    left = step.context.policy.choice.dwell_seconds - (step.context.now - settled_at)
    if left <= 0:
        return None
    return Veto(
        DecisionReason.RECENT_CHANGE,
        f"K {step.k} looks better, but the last change is too recent for another {left:.0f} s",
    )


def rate_limit(step: Step) -> Veto | None:
    """Limit the changes per hour; a bin that is not settled has some more."""
    bin_state = step.context.bin_state
    if step.revert or _keeps_the_limit_again(step):
        return None
    numbers = step.context.policy.choice
    allowed = numbers.switches_per_hour + (numbers.switches_to_settle if bin_state.settled_at is None else 0)
    if bin_state.recent_switches(step.context.now) + 1 <= allowed:
        return None
    return Veto(DecisionReason.RATE_LIMITED, f"K {step.k} looks better, but K changed often in the last hour")


def queue(context: TickContext) -> Veto | None:
    """Start no probe while requests wait for a place in the batch, unless they have waited for long."""
    waiting = context.waiting
    if waiting is None:
        return _unknown(REQUESTS_WAITING, "no probe starts")
    since = context.state.queued_since
    lasts = since is not None and context.now - since >= context.policy.safety.queue_seconds
    if waiting <= 0 or lasts:
        return None
    return Veto(DecisionReason.REQUESTS_QUEUED, f"{waiting:.0f} requests wait, so no probe starts")


def kv_full(context: TickContext) -> Veto | None:
    """Start no probe while the KV cache is almost full."""
    usage = context.kv_usage_ratio
    if usage is None:
        return _unknown(KV_USAGE, "no probe starts")
    if usage < context.policy.safety.kv_usage_limit:
        return None
    return Veto(DecisionReason.KV_PRESSURE, f"the KV cache is {100 * usage:.0f} % full, so no probe starts")


def latency_slack(context: TickContext) -> Veto | None:
    """Start no probe while the present K exceeds the latency limit: then every other K does."""
    limit, k = context.policy.safety.inter_token_latency_limit, context.bin_state.k
    if limit is None or k in choice.keeping(context.posterior, context.policy):
        return None
    slowest = f"K {k} takes {messages.latency(context.posterior, k)}"
    return Veto(
        DecisionReason.LATENCY_LIMIT_REACHED,
        f"{slowest}, above the limit of {1000 * limit:.0f} ms; no K keeps the limit",
    )


def collapse(context: TickContext) -> Veto | None:
    """Start no probe while the drafter may be broken, unless a smaller K is left to probe."""
    if not context.state.learning.acceptance_collapsed or choice.smaller(context):
        return None
    return Veto(DecisionReason.ACCEPTANCE_COLLAPSED, "acceptance is far below its history; check the outputs")


def uncounted_steps(context: TickContext) -> Veto | None:
    """Start no probe while engines that could run one do not count steps by batch bin and K."""
    if context.readings.exact or context.policy.exploration.probe_share <= 0:
        return None
    return Veto(DecisionReason.METRICS_GAP, "the engines do not count steps by K, so no probe starts")


def _keeps_the_limit_again(step: Step) -> bool:
    """Whether the change leads from a K above the latency limit to shorter steps."""
    context, k = step.context, step.context.bin_state.k
    broken = k not in choice.keeping(context.posterior, context.policy)
    return broken and context.posterior.step_seconds(step.k) < context.posterior.step_seconds(k)


def _unknown(gauge: str, consequence: str) -> Veto:
    """A veto for an unknown gauge, which may have its worst value."""
    return Veto(DecisionReason.METRICS_GAP, f"not every pod reports {gauge}, so {consequence}")


OBSERVATIONS: Sequence[Callable[[TickContext], Veto | None]] = (gap, mixed_window, no_traffic)
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
