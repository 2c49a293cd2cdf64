"""What the law can say while no engine has a drafter: whether one would pay at the load of now."""

from __future__ import annotations

from dataclasses import replace
from math import expm1, sqrt

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Decision, Kind, Outlook, Structural, Wish
from outrider.tuning.estimate.belief import Belief, beliefs
from outrider.tuning.estimate.step_time_map import StepTimeMap
from outrider.tuning.estimate.tax import Tax
from outrider.tuning.observe.readings import Readings
from outrider.tuning.policy import Policy
from outrider.tuning.state import Ledger, TunerState


def launched_without(
    state: TunerState,
    bare: Readings,
    policy: Policy,
    now: float,
    *,
    step_times: StepTimeMap | None = None,
) -> Decision:
    """A hold that says what drafting would bring. bare: readings of launches without a drafter.

    What was learnt beside a drafter is not forgotten meanwhile: nothing can replace it. So the load
    at which the drafter did not pay is remembered, and another load is judged from it, with the
    larger error that the distance brings.
    """
    # A ledger of the time before would condemn the drafter on the day of its return.
    state = replace(state, ledger=Ledger(), trial=None)
    if bare.bin is None:
        sentence = "the engines run without a drafter; no tokens were generated"
        return Wish(Kind.HOLD, DecisionReason.NO_TRAFFIC, sentence, state).decided(before=state.schedule)
    learnt_at = max((known.at for known in state.known), default=now)
    belief = beliefs(state, bare, policy, learnt_at, step_times=step_times)[bare.bin]
    tax = (state.tax or Tax.prior(policy.estimation)).at(now, policy.estimation)
    gain, error = over_no_drafter(belief, tax)
    sentence = (
        f"batch {policy.label(bare.bin)}: the engines run without a drafter; drafting would gain "
        f"{100 * expm1(gain):+.0f} % ± {100 * error:.0f} %"
    )
    # Without any memory of why the drafter went, the one that the user asked for gets its chance.
    pays = not state.known or gain > max(policy.choice.min_gain, policy.relaunch.rollout_sigmas * error)
    return replace(
        Wish(Kind.HOLD, DecisionReason.NO_DRAFTER, sentence, state).decided(before=state.schedule),
        batch_size=belief.batch_size,
        structural=Structural.ON if pays else Structural.KEEP,
        outlook=Outlook(belief, measured={}, k0_duty=1.0, tax=tax),
    )


def over_no_drafter(belief: Belief, tax: Tax) -> tuple[float, float]:
    """log of the goodput of the best K > 0 over a launch without a drafter, and its standard error."""
    drafting = [k for k in belief.candidates if k > 0]
    if not drafting or 0 not in belief.candidates:
        return float("-inf"), 0.0
    gain, error = belief.gain(belief.best(drafting), 0)
    return gain - tax.mean, sqrt(error**2 + tax.variance)
