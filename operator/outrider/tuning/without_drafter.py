"""Whether a drafter pays: the account of recent time, and the tuner while no engine has one."""

from __future__ import annotations

from dataclasses import replace
from math import erf, exp, expm1, hypot, pi, sqrt

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Decision, Kind, Outlook, Structural
from outrider.tuning.estimate.goodput import posteriors
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.state import Ledger, TunerState
from outrider.tuning.tick_context import TickContext


def judge_drafter(context: TickContext) -> TickContext | Decision:
    """Hold with the estimated gain of drafting, if every measured pod runs without a drafter.

    Measurements with a drafter keep their weight meanwhile, because nothing can replace them. So the estimate
    for another load starts from the load at which the drafter did not pay. Its error grows with the distance.
    """
    if context.observations or not context.without_drafter:
        return context
    policy, known, state = context.policy, context.state.learning.known, context.state
    bin_ = context.undrafted.bin
    if bin_ is None:
        sentence = "the engines run without a drafter; no tokens were generated"
        return Decision(Kind.HOLD, DecisionReason.NO_TRAFFIC, sentence, state, state.schedule)
    tried = _tried_near(context, bin_)
    posterior = _as_learnt(context, bin_, tried=tried)
    gain, error = over_no_drafter(posterior, context.overhead)
    hoped = gain if tried else hoped_gain(gain, error)
    state = _booked(context, hoped, error)
    sentence = (
        f"batch {policy.label(bin_)}: the engines run without a drafter; drafting would gain "
        f"{100 * expm1(gain):+.0f} % ± {100 * error:.0f} %"
    )
    mean, mean_error = drafting_gain(state.fallback.ledger, context.overhead)
    # Without a measurement against the drafter, the user's drafter is used.
    needed = max(policy.choice.min_gain, policy.relaunch.rollout_sigmas * error if tried else 0.0)
    steady = mean * state.fallback.ledger.weight > policy.relaunch.structural_gain
    pays = not known or (steady and hoped > needed)
    outlook = Outlook(
        posterior,
        {},
        drafting=mean,
        drafting_error=mean_error,
        overhead=context.overhead,
        structural=Structural.ON if pays else Structural.KEEP,
    )
    reason = DecisionReason.NO_DRAFTER
    return Decision(Kind.HOLD, reason, sentence, state, state.schedule, outlook=outlook)


def over_no_drafter(posterior: Posterior, overhead: IdleDrafterOverhead) -> tuple[float, float]:
    """Return the log of the goodput of the best K > 0 over that without a drafter, and its standard error."""
    drafting = [k for k in posterior.candidates if k > 0]
    if not drafting or 0 not in posterior.candidates:
        return float("-inf"), 0.0
    gain, error = posterior.gain(posterior.best(drafting), 0)
    return gain - overhead.mean, hypot(error, overhead.error)


def drafting_gain(ledger: Ledger, overhead: IdleDrafterOverhead) -> tuple[float, float]:
    """Return the recent mean log gain of drafting over a launch without a drafter, and its standard error."""
    if ledger.weight <= 0:
        return 0.0, overhead.error
    error = hypot(ledger.drafting_error / ledger.weight, overhead.error)
    return ledger.drafting / ledger.weight - overhead.mean, error


def structural(context: TickContext) -> Structural:
    """Judge engines that have a drafter, by the recent mean; a present gain keeps the drafter."""
    policy, ledger, overhead = context.policy, context.state.fallback.ledger, context.overhead
    if 0 not in policy.candidates or max(policy.candidates) == 0:
        return Structural.KEEP
    if _pays(context):
        return Structural.ON
    gain, error = drafting_gain(ledger, overhead)
    if ledger.weight < 1.0 - exp(-policy.relaunch.relaunch_dwell_seconds / policy.safety.ledger_seconds):
        return Structural.KEEP
    sure = -gain > policy.relaunch.structural_sigmas * error
    lasting = -gain * ledger.weight > policy.relaunch.structural_gain
    return Structural.OFF if sure and lasting else Structural.KEEP


def _pays(context: TickContext) -> bool:
    """Whether drafting is surely faster than no drafter at the current load."""
    policy = context.policy
    gain, error = present_gain(context)
    needed = max(policy.choice.min_gain, policy.choice.confidence_sigmas * error)
    return gain - context.overhead.mean > needed


def present_gain(context: TickContext) -> tuple[float, float]:
    """Return the log gain over K=0 at the current load, and its standard error. K=0 is a candidate."""
    posterior, followed = context.posterior, context.state.learning.followed
    best = posterior.gain(posterior.best(context.policy.candidates), 0)
    if followed is None or followed.bin != context.bin:
        return best
    return max(best, posterior.followed_gain(followed, 0) or (0.0, 0.0))


def hoped_gain(gain: float, error: float) -> float:
    """Return the expected log gain of a trial of drafting that ends if it loses: E[max(0, normal)].

    Source: expected improvement, Jones et al. 1998.
    """
    if error <= 0:
        return max(gain, 0.0)
    z = gain / error
    return error * exp(-z * z / 2) / sqrt(2 * pi) + gain * (1 + erf(z / sqrt(2))) / 2


def _tried_near(context: TickContext, bin_: int) -> bool:
    """Whether drafts were measured at this batch size or at a neighbouring one."""
    return any(abs(cell.bin - bin_) <= 1 and cell.k > 0 for cell in context.state.learning.known)


def _as_learnt(context: TickContext, bin_: int, *, tried: bool) -> Posterior:
    """The estimates of the last time with a drafter.

    Far from the batch sizes of that time, the text may be another too. So its acceptance fades.
    """
    learning, estimation = context.state.learning, context.policy.estimation
    learnt_at = max((cell.at for cell in learning.known), default=context.now)
    if not tried:
        profile = learning.profile.after((), context.now - learnt_at, estimation)
        learning = replace(learning, profile=profile)
    context = context.with_state(replace(context.state, learning=learning))
    return posteriors(replace(context, readings=context.undrafted, now=learnt_at))[bin_]


def _booked(context: TickContext, hoped: float, error: float) -> TunerState:
    """The state after this tick is booked with what a drafter would have gained, which would use K=0 too."""
    state, rows, overhead = context.state, context.undrafted.rows, context.overhead.mean
    seconds = sum(row.seconds for row in rows) / len({row.pod for row in rows})
    # The gain over the static schedule of the time before would count against the drafter when it returns.
    ledger = replace(state.fallback.ledger, gain=0.0)
    drafting = (max(hoped + overhead, 0.0), error)
    ledger = ledger.after(0.0, drafting=drafting, seconds=seconds, safety=context.policy.safety)
    return replace(state, fallback=replace(state.fallback, ledger=ledger))
