"""The tuner while no engine has a drafter: it estimates whether one would pay at the current load."""

from __future__ import annotations

from dataclasses import replace
from math import expm1, sqrt

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Decision, Kind, Outlook, Structural
from outrider.tuning.estimate.goodput import posteriors
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.state import Ledger
from outrider.tuning.tick_context import TickContext


def judge_drafter(context: TickContext) -> TickContext | Decision:
    """Hold with the estimated gain of drafting, if every measured pod runs without a drafter.

    Measurements with a drafter keep their weight meanwhile, because nothing can replace them. So the estimate
    for another load starts from the load at which the drafter did not pay. Its error grows with the distance.
    """
    if context.observations or not context.without_drafter:
        return context
    policy, known = context.policy, context.state.learning.known
    # The gain of the time before would count against the drafter when it returns.
    state = replace(context.state, fallback=replace(context.state.fallback, ledger=Ledger()))
    bin_ = context.undrafted.bin
    if bin_ is None:
        sentence = "the engines run without a drafter; no tokens were generated"
        return Decision(Kind.HOLD, DecisionReason.NO_TRAFFIC, sentence, state, state.schedule)
    learnt_at = max((cell.at for cell in known), default=context.now)
    posterior = posteriors(replace(context, readings=context.undrafted, now=learnt_at))[bin_]
    gain, error = over_no_drafter(posterior, context.overhead)
    sentence = (
        f"batch {policy.label(bin_)}: the engines run without a drafter; drafting would gain "
        f"{100 * expm1(gain):+.0f} % ± {100 * error:.0f} %"
    )
    # Without a measurement against the drafter, the user's drafter is used.
    pays = not known or gain > max(policy.choice.min_gain, policy.relaunch.rollout_sigmas * error)
    structural = Structural.ON if pays else Structural.KEEP
    outlook = Outlook(posterior, {}, k0_duty=1.0, overhead=context.overhead, structural=structural)
    reason = DecisionReason.NO_DRAFTER
    return Decision(Kind.HOLD, reason, sentence, state, state.schedule, outlook=outlook)


def over_no_drafter(posterior: Posterior, overhead: IdleDrafterOverhead) -> tuple[float, float]:
    """Return the log of the goodput of the best K > 0 over that without a drafter, and its standard error."""
    drafting = [k for k in posterior.candidates if k > 0]
    if not drafting or 0 not in posterior.candidates:
        return float("-inf"), 0.0
    gain, error = posterior.gain(posterior.best(drafting), 0)
    return gain - overhead.mean, sqrt(error**2 + overhead.variance)
