"""The trial of a new drafter: how long it is compared, and whether the replicas get it. Pure.

The reconciler keeps the replicas at the drafter before, and launches the canary. It reports an engine that
does not start. The replicas get the new drafter unless it is slower: the user asked for it.
"""

from __future__ import annotations

from dataclasses import replace
from math import expm1

from outrider.api.launch import DrafterTrial, DrafterVerdict, TrialStage
from outrider.api.reasons import LaunchReason
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch import messages
from outrider.tuning.relaunch.inputs import RelaunchInput, Verdict, with_contrast
from outrider.tuning.relaunch.state import LaunchGain, RelaunchState


def on_trial(inputs: RelaunchInput, state: RelaunchState, policy: Policy) -> Verdict | None:
    """The verdict while a drafter is tried, or after it was; None without a trial."""
    trial = inputs.trial
    if trial is None:
        return None
    if trial.stage is not TrialStage.COMPARING:
        return _carried_out(trial, state)
    if state.trial != trial.spec:
        state = state.trying(trial.spec, inputs.now)
    ordered = state.order.drafter
    if ordered is not None:  # and the reconciler has not carried it out yet
        reason = LaunchReason.RELAUNCHING if ordered.promoted else LaunchReason.DRAFTER_KEPT
        return Verdict(state, reason, ordered.why)
    if state.canary_ready_at is None:
        return Verdict(state, LaunchReason.CANARY_RUNNING, messages.drafter_starts(trial.drafter))
    return _compared(inputs, trial, state, policy)


def without_trial(inputs: RelaunchInput, state: RelaunchState) -> RelaunchState:
    """The state after a trial, which keeps its result for the status."""
    if inputs.trial is not None or not (state.trial or state.order.drafter):
        return state
    return replace(state.without_verdict(), trial="", canary_ready_at=None)


def _carried_out(trial: DrafterTrial, state: RelaunchState) -> Verdict:
    state = state.without_verdict()
    if trial.stage is TrialStage.RETURNED:
        return Verdict(state, LaunchReason.DRAFTER_KEPT, trial.why)
    result = messages.drafter_promoted(trial.drafter, state.drafter)
    return Verdict(state, LaunchReason.RELAUNCHING, result)


def _compared(inputs: RelaunchInput, trial: DrafterTrial, state: RelaunchState, policy: Policy) -> Verdict:
    """Measure for a fixed time, since an end by the result would make the interval too narrow."""
    begun, numbers = state.canary_ready_at, policy.relaunch
    assert begun is not None
    state = with_contrast(inputs, state, since=begun + numbers.comparison_warm_up_seconds)
    elapsed = inputs.now - begun
    found, serves = state.contrasts.interval(), inputs.canaries > 0
    known = found is not None and serves and elapsed >= numbers.canary_seconds
    if not known and elapsed < numbers.trial_seconds:
        return Verdict(state, LaunchReason.CANARY_RUNNING, messages.drafter_runs(trial.drafter))
    gain = None
    if found is not None:
        gain = LaunchGain(found.mean, found.low, found.high, inputs.now)
        state = replace(state, drafter=gain, drafter_name=trial.drafter)
    slower = gain is not None and gain.favours(first=False, min_gain=numbers.verification_gain)
    if serves and not slower:
        return _ordered(state, trial, messages.drafter_promoted(trial.drafter, gain), gain, promoted=True)
    why = messages.drafter_kept(trial.drafter, gain if slower else None)
    return _ordered(state, trial, why, gain, promoted=False)


def _ordered(
    state: RelaunchState, trial: DrafterTrial, why: str, gain: LaunchGain | None, *, promoted: bool
) -> Verdict:
    result = DrafterVerdict(trial.spec, promoted, why)
    return Verdict(
        replace(state, order=replace(state.order, drafter=result)),
        LaunchReason.RELAUNCHING if promoted else LaunchReason.DRAFTER_KEPT,
        why,
        expected_gain=None if gain is None else expm1(gain.mean),
    )
