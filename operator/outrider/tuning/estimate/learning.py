"""What one tick's readings change in the state, before anything is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from math import exp, sqrt

import numpy as np

from outrider.tuning.estimate.acceptance import Profile
from outrider.tuning.estimate.collapse import Drafts, has_collapsed
from outrider.tuning.estimate.followed import Followed
from outrider.tuning.estimate.idle_drafter_overhead import Comparison, IdleDrafterOverhead
from outrider.tuning.estimate.model_averaging import blend, trust_in
from outrider.tuning.estimate.posterior import Posterior, residuals
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.estimate.surface import MAX_KNOWN, ObservedCell, noise_variance, noise_variances
from outrider.tuning.observe.readings import Reading, Readings
from outrider.tuning.policy import Estimation, Policy
from outrider.tuning.state import BinState, Drift, Pace, TunerState

_DOUBT = 0.8
"""Trust in a map below which what was settled with it is looked at again."""

_SURPRISE = 0.15
"""Standard error of a log step time above which no reading counts as a surprise."""

_ROUGHLY_KNOWN = 0.5
"""Standard error of a log step time above which the expected step time is unknown."""

_TOO_NOISY = 0.25
"""Standard deviation of a log step time beyond which its noise is not normal; such a reading is left out."""

_PROMPTS_MISFIT = 0.125
"""Log step time, over the log of the tokens with prompts by those without, that the linear model misses."""

_FOLLOWED_DRAFTS = 400.0
"""Drafts that the mean acceptance of an engine weighs as that chooses K itself: it moves with the texts."""

_MAX_EARNING_SECONDS = 60.0
"""Between two ticks. Probe time is earned while the tuner decides, not while a person or an error does."""

_FALLEN_RATIO = 0.7
"""Ratio of the mean acceptance to its history, below which a collapse is not one of two texts by turns."""

_Residual = tuple[float, float, float]
"""See `residuals`."""


def learn(
    state: TunerState,
    readings: Readings,
    policy: Policy,
    now: float,
    *,
    step_times: StepTimeProfile | None = None,
) -> TunerState:
    """Pass the time, then take in the readings: pace of pods, noise, drift, acceptance, step times."""
    seconds = 0.0 if state.at is None else max(0.0, now - state.at)
    state = _pass_time(state, seconds, policy, now)
    if not readings.rows:
        return state
    state = _visit(state, readings, policy)
    found = residuals(state, readings.rows, policy.estimation, now, step_times=step_times)
    weighed = [_weighed(r, f, state, policy.estimation) for r, f in zip(readings.rows, found, strict=True)]
    told = [(r, f) for r, f in zip(weighed, found, strict=True) if r is not None]
    state = _compare(state, told, policy, now)
    before = state
    state = replace(state, known=_remember(state, [r for r, _ in told], policy.estimation, now))
    if (
        step_times is not None
        and step_times.compares
        and _lost_trust(step_times, before, state, policy.estimation, now)
    ):
        state = state.all_unsettled(policy.exploration.recalibration_seconds)
    state = _follow_acceptance(state, readings, seconds, policy, now)
    return _follow_engines(state, readings, seconds, policy)


def keep_ledger(
    state: TunerState,
    readings: Readings,
    beliefs: Mapping[int, Posterior],
    policy: Policy,
    *,
    compared: bool = False,
) -> TunerState:
    """Book the gain of the K that ran over the static schedule, by the estimates of both.

    compared: probes of K=0 run for a comparison with a launch without a drafter. They are not a choice.
    """
    rows = [r for r in readings.rows if not (compared and r.k == 0 < state.schedule.k_at_mean(r.batch_size))]
    total = sum(r.seconds for r in rows)
    if total <= 0:
        return state
    gain = k0 = 0.0
    for index in sorted({row.bin for row in rows}):
        of_bin = [row for row in rows if row.bin == index]
        share = sum(row.seconds for row in of_bin) / total
        gain += share * _gain_over_static(of_bin, beliefs[index], state, policy, readings)
        k0 += sum(row.seconds for row in of_bin if row.k == 0) / total
    pods = len({r.pod for r in rows})
    return replace(state, ledger=state.ledger.after(gain, k0=k0, seconds=total / pods, safety=policy.safety))


def _gain_over_static(
    rows: Sequence[Reading], belief: Posterior, state: TunerState, policy: Policy, readings: Readings
) -> float:
    """log of the goodput of the K that ran over that of the static schedule. rows: of one batch bin."""
    if readings.survival is not None:
        given = policy.allowed(state.static.k_at_mean(readings.batch_size(rows[0].bin)))
        found = belief.followed_gain(Followed.of(rows[0].bin, belief.candidates, rows), given)
        return 0.0 if found is None else found[0]
    total, gain = sum(row.seconds for row in rows), 0.0
    for row in rows:
        given = policy.allowed(state.static.k_at_mean(row.batch_size))
        gain += row.seconds / total * belief.gain(row.k, given)[0]
    return gain


def learn_tax(
    state: TunerState,
    rows: Sequence[Reading],
    estimation: Estimation,
    now: float,
    *,
    step_times: StepTimeProfile | None = None,
) -> TunerState:
    """Compare the estimate of K=0 beside a drafter with `rows` of launches without one.

    All measurements of these are compared anew, since the estimate of K=0 improves with each probe. A result
    that is not surer than before changes nothing.
    """
    comparison = state.comparison
    if comparison is not None and not rows and comparison.over(now):
        return replace(state, comparison=None)
    if not rows:
        return state
    tax = (state.tax or IdleDrafterOverhead.prior(estimation)).at(now, estimation)
    if comparison is None or comparison.over(now):
        comparison = Comparison(tax)
    comparison = comparison.plus([ObservedCell.of(row, pace=0.0) for row in rows], now, estimation)
    state = replace(state, comparison=comparison)
    noise, cells = state.noise(estimation), comparison.cells
    told = blend(state.known, step_times, cells, estimation, noise=noise, now=now)
    between_pods = sum(p.mean**2 for p in state.pods.values()) / max(len(state.pods), 1)
    errors = told.covariance + between_pods
    errors += np.diag(noise_variances(cells, estimation, noise=noise, now=now))
    found = comparison.before.after(told.means - [cell.log_step for cell in cells], errors, now)
    surer = found.measured(estimation) and found.variance < tax.variance
    return replace(state, tax=found) if surer else state


def _pace(state: TunerState, pod: str) -> float:
    """Log step time by which a pod is slower than the mean of all."""
    return state.pods[pod].mean if pod in state.pods else 0.0


def _pass_time(state: TunerState, seconds: float, policy: Policy, now: float) -> TunerState:
    exploration = policy.exploration
    earning = 0.0 if state.pinned else min(seconds, _MAX_EARNING_SECONDS)
    credit = state.probe_credit + exploration.probe_share * earning
    return replace(
        state,
        at=now,
        ticks=state.ticks + 1,
        probe_credit=min(credit, exploration.probe_burst_seconds),
        loss=state.loss * exp(-seconds / policy.safety.loss_seconds),
    )


def _visit(state: TunerState, readings: Readings, policy: Policy) -> TunerState:
    for index in sorted({r.bin for r in readings.rows}):
        bin_state = state.bins.get(index)
        if bin_state is None or not bin_state.chosen:
            given = policy.allowed(state.schedule.k_at_mean(readings.batch_size(index)))
            bin_state = replace(bin_state or BinState(k=given), k=given)
        if not bin_state.visited:
            credit = policy.exploration.calibration_seconds
            bin_state = replace(bin_state, visited=True, settled_at=None, credit=credit)
        state = state.with_bin(index, bin_state)
    return state


def _weighed(row: Reading, found: _Residual, state: TunerState, estimation: Estimation) -> Reading | None:
    """What counts of a reading; None if its step time is too noisy to be of use.

    A few steps that took ten times as long as they should look like a long measurement. So a reading weighs
    no more than the time that its steps should have taken. The more prompts it has, the less it weighs.
    """
    residual, known, _ = found
    share = exp(-max(0.0, residual - _pace(state, row.pod))) if known < _ROUGHLY_KNOWN**2 else 1.0
    own = noise_variance(state.noise(estimation), share * row.seconds)
    if own > _TOO_NOISY**2:
        return None
    return row.part(share * own / (own + (_PROMPTS_MISFIT * row.log_prompts) ** 2))


def _compare(
    state: TunerState, told: Sequence[tuple[Reading, _Residual]], policy: Policy, now: float
) -> TunerState:
    """Against what was known: a pod that is slower, noise that is larger, engines that changed."""
    heard = {r.pod for r, _ in told}
    paces = _without_the_gone(state.pods, heard)
    score = weight = 0.0
    several = len(heard) > 1
    for row, (residual, known, noise) in told:
        if several or paces:
            paces[row.pod] = paces.get(row.pod, Pace()).after(residual, known + noise)
            residual -= paces[row.pod].mean
        if sqrt(known) < _SURPRISE:
            z = residual / sqrt(known + noise)
            score, weight = score + z * sqrt(row.seconds), weight + row.seconds
            state = state.with_residual(z * z)
    if weight <= 0:
        return replace(state, pods=_centred(paces))
    drift = state.drift.after(score / sqrt(weight), policy.estimation)
    state = replace(state, drift=drift, pods=_centred(paces))
    return _changed(state, policy, now) if drift.found(policy.estimation) else state


def _changed(state: TunerState, policy: Policy, now: float) -> TunerState:
    """The engines are not what they were: step times count little, every choice is open.

    It may have been noise, too; so the next alarm needs a little more.
    """
    known = tuple(replace(k, seconds=k.seconds * policy.estimation.drift_keep) for k in state.known)
    state = replace(state, known=known, drift=Drift()).pin_over(now).noisier()
    return state.all_unsettled(policy.exploration.recalibration_seconds)


def _without_the_gone(paces: Mapping[str, Pace], heard: Set[str]) -> dict[str, Pace]:
    """A name that is new replaces one that is heard of no more; pods are not named twice."""
    if heard <= paces.keys():
        return dict(paces)
    return {pod: pace for pod, pace in paces.items() if pod in heard}


def _centred(paces: Mapping[str, Pace]) -> dict[str, Pace]:
    """Only differences between pods are known, so they sum to 0."""
    if not paces:
        return {}
    middle = sum(p.mean for p in paces.values()) / len(paces)
    return {pod: replace(p, mean=p.mean - middle) for pod, p in paces.items()}


def _remember(
    state: TunerState, rows: Sequence[Reading], estimation: Estimation, now: float
) -> tuple[ObservedCell, ...]:
    known = {k.key: k for k in state.known}
    for row in rows:
        new = ObservedCell.of(row, _pace(state, row.pod))
        known[new.key] = known[new.key].plus(new, estimation) if new.key in known else new
    if len(known) > MAX_KNOWN:
        heaviest = sorted(known.values(), key=lambda k: -k.seconds_at(now, estimation))
        known = {k.key: k for k in heaviest[:MAX_KNOWN]}
    return tuple(sorted(known.values(), key=lambda k: (k.bin, k.k, -1 if k.octave is None else k.octave)))


def _lost_trust(
    step_times: StepTimeProfile, before: TunerState, after: TunerState, estimation: Estimation, now: float
) -> bool:
    """Whether the newest readings threw doubt on the map, so that what was settled with it is open again."""
    noise = after.noise(estimation)
    old, new = (
        trust_in(step_times, state.known, estimation, noise=noise, now=now) for state in (before, after)
    )
    return new < _DOUBT <= old


def _follow_engines(state: TunerState, readings: Readings, seconds: float, policy: Policy) -> TunerState:
    """What the steps gained of engines that choose K themselves."""
    if readings.survival is None or readings.bin is None:
        return state if state.followed is None else replace(state, followed=None)
    newer = Followed.of(readings.bin, policy.candidates, readings.of(readings.bin))
    followed = newer if state.followed is None else state.followed.after(newer, seconds)
    return replace(state, followed=followed)


def _follow_acceptance(
    state: TunerState, readings: Readings, seconds: float, policy: Policy, now: float
) -> TunerState:
    """First-position acceptance does not depend on K, so its history spans all schedules."""
    newest = _first_position(readings)
    if readings.survival is not None:
        return _follow_mean_acceptance(state, readings.survival, newest, seconds, policy)
    profile = state.profile.after(readings.rows, seconds, policy.estimation)
    state = replace(state, profile=profile)
    if profile.shifted:
        state = state.all_unsettled(policy.exploration.recalibration_seconds).pin_over(now)
    if newest.drafted <= 0:
        return replace(state, collapsed=0)  # without drafts nothing is known, and K=0 must not be a trap
    collapsed = has_collapsed(newest, _history(state), ratio=policy.safety.collapse_ratio)
    state = _with_history(state, newest, seconds, policy)
    return replace(state, collapsed=state.collapsed + 1 if collapsed else 0)


def _follow_mean_acceptance(
    state: TunerState, survival: Sequence[float], newest: Drafts, seconds: float, policy: Policy
) -> TunerState:
    """Take the acceptance that engines averaged over engine time, since they draft where drafts pay.

    So the history is that mean. A collapse has to show in the newest drafts and in the mean: where texts
    alternate within seconds, the mean stays.
    """
    history, mean = _history(state), Drafts(survival[0] * _FOLLOWED_DRAFTS, _FOLLOWED_DRAFTS)
    state = replace(state, profile=Profile.of_survival(survival, _FOLLOWED_DRAFTS))
    state = _with_history(state, mean, seconds, policy)
    if newest.drafted <= 0:
        return state
    fallen = history.drafted > 0 and mean.rate < _FALLEN_RATIO * history.rate
    collapsed = fallen and has_collapsed(newest, history, ratio=policy.safety.collapse_ratio)
    return replace(state, collapsed=state.collapsed + 1 if collapsed else 0)


def _first_position(readings: Readings) -> Drafts:
    """Accepted and drafted tokens of the first position."""
    rows = [row for row in readings.rows if row.drafted and row.drafted[0] > 0]
    return Drafts(sum(row.accepted[0] for row in rows if row.accepted), sum(row.drafted[0] for row in rows))


def _history(state: TunerState) -> Drafts:
    return Drafts(state.first_accepted, state.first_drafted)


def _with_history(state: TunerState, newest: Drafts, seconds: float, policy: Policy) -> TunerState:
    left = 0.5 ** (seconds / policy.estimation.half_life_seconds)
    return replace(
        state,
        first_accepted=state.first_accepted * left + newest.accepted,
        first_drafted=state.first_drafted * left + newest.drafted,
    )
