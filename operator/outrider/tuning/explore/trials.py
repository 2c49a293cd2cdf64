"""A trial through the schedule, from its start to its end, for engines that cannot probe."""

from __future__ import annotations

from dataclasses import replace

from outrider.api.reasons import DecisionReason
from outrider.tuning.choose.guardrails import Veto
from outrider.tuning.decision import Kind, Proposal
from outrider.tuning.policy import Policy
from outrider.tuning.state import Trial, TunerState
from outrider.tuning.tick_context import TickContext


def blind(state: TunerState, veto: Veto, policy: Policy, now: float) -> Proposal:
    """Hold without measurements, but end a trial that gets none for too long."""
    trial = state.trial
    if trial is None or not trial.starved(policy.exploration, now):
        return Proposal(Kind.HOLD, veto.reason, veto.sentence, state)
    sentence = (
        f"the trial of K {trial.k} ends without a result after {now - trial.heard_at:.0f} s: {veto.sentence}"
    )
    return Proposal(
        Kind.ROLL_BACK,
        DecisionReason.TRIAL_NOT_MEASURED,
        sentence,
        replace(state, trial=None),
        explained=frozenset({trial.bin}),
    )


def measuring(view: TickContext) -> Proposal | None:
    """Hold while the K on trial in this bin has no reading yet; None without such a trial."""
    trial = view.trial
    if trial is None or trial.seconds > 0 or trial.starved(view.policy.exploration, view.now):
        return None
    return view.hold(DecisionReason.MEASURING, f"measuring K {trial.k}")


def ended(view: TickContext, trial: Trial, tried: Proposal) -> Proposal:
    """End a trial without a successor."""
    tried = replace(tried, kind=Kind.ROLL_BACK, explained=frozenset({trial.bin}))
    if trial.bin != view.bin:
        sentence = view.say(
            f"the load left batch {view.policy.label(trial.bin)}, so the trial of K {trial.k} ends"
        )
        return replace(tried, reason=DecisionReason.LOAD_CHANGED, sentence=sentence)
    k = view.bin_state.k
    sentence = view.say(f"K {trial.k} is not better, {view.rate(trial.k)} vs {view.rate(k)}")
    return replace(tried, reason=DecisionReason.TRIAL_NOT_BETTER, sentence=sentence)
