"""What the law can say while no engine has a drafter: whether one would pay at the load of now."""

from __future__ import annotations

from dataclasses import replace
from math import expm1, sqrt

from outrider.tuning.decision import Decision, DecisionReason, Kind, Outlook, Structural
from outrider.tuning.estimate.belief import Belief, beliefs
from outrider.tuning.estimate.tax import Tax
from outrider.tuning.observe.readings import Readings
from outrider.tuning.policy import Policy
from outrider.tuning.state import Ledger, TunerState


def launched_without(state: TunerState, bare: Readings, policy: Policy, now: float) -> Decision:
    """A hold that says what drafting would bring. bare: readings of launches without a drafter.

    What was learnt beside a drafter is not forgotten meanwhile: nothing can replace it. So the load
    at which the drafter did not pay is remembered, and another load is judged from it, with the
    larger error that the distance brings.
    """
    # A ledger of the time before would condemn the drafter on the day of its return.
    state = replace(state, ledger=Ledger(), trial=None)
    reason, sentence = DecisionReason.NO_TRAFFIC, "launched without a drafter; no tokens were generated"
    outlook, structural = None, Structural.KEEP
    if bare.bin is not None:
        learnt_at = max((known.at for known in state.known), default=now)
        belief = beliefs(state, bare, policy, learnt_at)[bare.bin]
        tax = (state.tax or Tax.prior(policy)).at(now, policy)
        outlook = Outlook(belief, measured={}, k0_duty=1.0, tax=tax)
        gain, error = over_no_drafter(belief, tax)
        # Without any memory of why the drafter went, the one that the user asked for gets its chance.
        would_pay = not state.known or gain > max(policy.min_gain, policy.rollout_sigmas * error)
        structural = Structural.ON if would_pay else Structural.KEEP
        reason = DecisionReason.NO_DRAFTER
        sentence = (
            f"batch {policy.label(bare.bin)}: launched without a drafter; drafting would bring "
            f"{100 * expm1(gain):+.0f} % ± {100 * error:.0f} %"
        )
    return Decision(
        kind=Kind.HOLD,
        reason=reason,
        sentence=sentence,
        schedule=state.schedule,
        changed=False,
        state=state,
        batch_size=None if outlook is None else outlook.belief.batch_size,
        num_speculative_tokens=None,
        expected_gain=None,
        measured_gain=None,
        estimates={},
        acceptance=None,
        acceptance_collapsed=False,
        speedup=None,
        structural=structural,
        outlook=outlook,
    )


def over_no_drafter(belief: Belief, tax: Tax) -> tuple[float, float]:
    """log of the goodput of the best K > 0 over a launch without a drafter, and its standard error."""
    lengths = [k for k in belief.candidates if k > 0]
    if not lengths or 0 not in belief.candidates:
        return float("-inf"), 0.0
    gain, error = belief.gain(belief.best(lengths), 0)
    return gain - tax.mean, sqrt(error**2 + tax.variance)
