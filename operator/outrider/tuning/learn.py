"""What one tick's measurements change in the state, before anything is decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from outrider.tuning.attribution import Readings
from outrider.tuning.estimate import Measured, acceptance_residual, goodput_residual
from outrider.tuning.explore import clear_rival
from outrider.tuning.policy import Policy
from outrider.tuning.state import BinState, TunerState
from outrider.tuning.window import Window


def learn(
    state: TunerState, readings: Readings, windows: Iterable[Window], policy: Policy, now: float
) -> TunerState:
    """Add the readings to their bins, follow the trial under way, and forget what drifted."""
    for (index, k), new in readings.measured.items():
        bin_state = state.bins.get(index) or BinState(k=k)
        if bin_state.settled_at is not None and k == bin_state.k:
            bin_state = _watch_drift(bin_state, new, policy)
        known = bin_state.measured.get(k)
        total = new if known is None else known.plus(new, policy)
        bin_state = replace(bin_state, measured={**bin_state.measured, k: total})
        state = _follow_trial(state.with_bin(index, bin_state), index, k, new, now)
    state = _forget_drifted(state, policy, now)
    return _follow_acceptance(_follow_rival(state, readings, policy, now), windows, policy)


def _watch_drift(bin_state: BinState, new: Measured, policy: Policy) -> BinState:
    known = bin_state.measured.get(bin_state.k)
    if known is None:
        return bin_state
    return replace(
        bin_state,
        goodput_drift=bin_state.goodput_drift.after(goodput_residual(new, known, policy), policy),
        acceptance_drift=bin_state.acceptance_drift.after(acceptance_residual(new, known, policy), policy),
    )


def _follow_trial(state: TunerState, index: int, k: int, new: Measured, now: float) -> TunerState:
    trial = state.trial
    if trial is None or (trial.bin, trial.k) != (index, k):
        return state
    heard = replace(trial, heard_at=now, seconds=trial.seconds + new.seconds, steps=trial.steps + new.steps)
    return replace(state, trial=heard)


def _forget_drifted(state: TunerState, policy: Policy, now: float) -> TunerState:
    """Other goodput is a matter of one bin; other acceptance makes the drafts of every bin other."""
    for index, bin_state in state.bins.items():
        rested = bin_state.settled_at is not None and now - bin_state.settled_at >= policy.dwell_seconds
        if rested and bin_state.acceptance_drift.found(policy):
            return replace(state, bins={i: b.forgotten() for i, b in state.bins.items()})
        if rested and bin_state.goodput_drift.found(policy):
            state = state.with_bin(index, bin_state.forgotten())
    return state


def _follow_rival(state: TunerState, readings: Readings, policy: Policy, now: float) -> TunerState:
    """Count the neighbouring ticks in which the same K beats the one in force."""
    if readings.current is None:
        return state
    index = readings.current[0]
    bin_state = state.bins[index]
    scores = bin_state.scores(readings.measured[readings.current].batch_size, now, policy)
    rival = clear_rival(bin_state, scores, policy)
    ticks = (
        bin_state.rival_ticks + 1
        if rival is not None and rival == bin_state.rival
        else int(rival is not None)
    )
    return state.with_bin(index, replace(bin_state, rival=rival, rival_ticks=ticks))


def _follow_acceptance(state: TunerState, windows: Iterable[Window], policy: Policy) -> TunerState:
    """First-position acceptance does not depend on K, so its history spans all tables."""
    rows = list(windows)
    if not rows:
        return state
    with_drafts = [w for w in rows if w.drafts > 0 and w.accepted_per_position]
    drafted = sum(w.drafts for w in with_drafts)
    if drafted <= 0:
        return replace(state, collapsed=False)  # without drafts nobody knows, and K=0 must not be a trap
    accepted = sum(w.accepted_per_position[0] for w in with_drafts)
    history = state.first_accepted / state.first_drafted if state.first_drafted > 0 else None
    collapsed = history is not None and accepted / drafted < policy.collapse_ratio * history
    seconds = max(w.seconds for w in with_drafts)
    left = 0.5 ** (seconds / policy.half_life_seconds)
    return replace(
        state,
        first_accepted=state.first_accepted * left + accepted,
        first_drafted=state.first_drafted * left + drafted,
        collapsed=collapsed,
    )
