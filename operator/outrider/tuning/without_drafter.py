"""The tuner while no engine has a drafter: it estimates whether one would pay at the current load."""

from __future__ import annotations

from dataclasses import replace
from math import expm1, sqrt

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Decision, Kind, Outlook, Proposal, Structural
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.estimate.posterior import Posterior, beliefs
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.observe.readings import Readings
from outrider.tuning.policy import Policy
from outrider.tuning.state import Ledger, TunerState


def launched_without(
    state: TunerState,
    bare: Readings,
    policy: Policy,
    now: float,
    *,
    step_times: StepTimeProfile | None = None,
) -> Decision:
    """Hold, with the estimated gain of drafting. bare: readings of launches without a drafter.

    Measurements with a drafter keep their weight meanwhile, because nothing can replace them. So the estimate
    for another load starts from the load at which the drafter did not pay. Its error grows with the distance.
    """
    # A ledger of the time before would count against the drafter when it returns.
    state = replace(state, ledger=Ledger())
    if bare.bin is None:
        sentence = "the engines run without a drafter; no tokens were generated"
        return Proposal(Kind.HOLD, DecisionReason.NO_TRAFFIC, sentence, state).decided(before=state.schedule)
    learnt_at = max((known.at for known in state.known), default=now)
    belief = beliefs(state, bare, policy, learnt_at, step_times=step_times)[bare.bin]
    tax = (state.tax or IdleDrafterOverhead.prior(policy.estimation)).at(now, policy.estimation)
    gain, error = over_no_drafter(belief, tax)
    sentence = (
        f"batch {policy.label(bare.bin)}: the engines run without a drafter; drafting would gain "
        f"{100 * expm1(gain):+.0f} % ± {100 * error:.0f} %"
    )
    # Without a measurement against the drafter, the user's drafter is used.
    pays = not state.known or gain > max(policy.choice.min_gain, policy.relaunch.rollout_sigmas * error)
    return replace(
        Proposal(Kind.HOLD, DecisionReason.NO_DRAFTER, sentence, state).decided(before=state.schedule),
        batch_size=belief.batch_size,
        structural=Structural.ON if pays else Structural.KEEP,
        outlook=Outlook(belief, measured={}, k0_duty=1.0, tax=tax),
    )


def over_no_drafter(belief: Posterior, tax: IdleDrafterOverhead) -> tuple[float, float]:
    """Return the log of the goodput of the best K > 0 over that without a drafter, and its standard error."""
    drafting = [k for k in belief.candidates if k > 0]
    if not drafting or 0 not in belief.candidates:
        return float("-inf"), 0.0
    gain, error = belief.gain(belief.best(drafting), 0)
    return gain - tax.mean, sqrt(error**2 + tax.variance)
