"""The update of the state by a tick's readings, before anything is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from math import exp, sqrt

import numpy as np

from outrider.api.drafting import MAX_K
from outrider.tuning import k0_comparison
from outrider.tuning.estimate.acceptance import Profile
from outrider.tuning.estimate.collapse import Drafts, first_position, has_collapsed
from outrider.tuning.estimate.followed import Followed
from outrider.tuning.estimate.goodput import predicted_steps, residuals
from outrider.tuning.estimate.idle_drafter_overhead import Comparison
from outrider.tuning.estimate.model_averaging import trust_in
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.estimate.surface import MAX_KNOWN, ObservedCell, noise_variance, noise_variances
from outrider.tuning.observe.readings import Reading, summed
from outrider.tuning.policy import Estimation, Policy, Safety
from outrider.tuning.state import BinState, Drift, Learning, Pace, TunerState
from outrider.tuning.tick_context import TickContext

_DOUBT = 0.8
"""Trust in a profile below which what was settled with it is examined again."""

_SURPRISE = 0.15
"""Standard error of a log step time above which no reading counts as a surprise."""

_ROUGHLY_KNOWN = 0.5
"""Standard error of a log step time above which the expected step time is unknown."""

_TOO_NOISY = 0.25
"""Standard deviation of a log step time beyond which its noise is not normal; such a reading is left out."""

_SINGLE_STEP = 0.4
"""Standard deviation of the log of one step's time. Some take many times as long as others: a step waits for
the compilation of a kernel, or for the garbage collection of the engine."""

_PROMPTS_MISFIT = 0.125
"""Log step time, over the log of the tokens with prompts by those without, that the linear model misses."""

_FOLLOWED_DRAFTS = 400.0
"""Weight, in drafts, of the mean acceptance of an engine that chooses K itself. It moves with the text."""

_MAX_EARNING_SECONDS = 60.0
"""Between two ticks. Probe time is earned while the tuner decides, not during a pause or an error."""

_FEW_LIMITS = 1e-3
"""Ratio of requests with a K limit below which it changes no choice."""

_FALLEN_RATIO = 0.7
"""Ratio of the mean acceptance to its history. Above it a collapse may be one of two alternating texts."""

_FAILING_WEIGHT = 1 / 8
"""Weight in the history of a mean acceptance that falls. A text on which drafts seldom pay becomes the
history within hours, a drafter that broke in many hours."""

_Residual = tuple[float, float, float]
"""See `residuals`."""


def learn(context: TickContext) -> TickContext:
    """Pass the time, then take in the readings: pace of pods, noise, drift, acceptance, step times."""
    seconds = 0.0 if context.state.at is None else max(0.0, context.now - context.state.at)
    context = context.with_state(_pass_time(context, seconds))
    rows = context.readings.rows
    if not rows:
        return context
    context = context.with_state(_visit(context))
    found = residuals(context, rows)
    weighed = [_weighed(r, f, context) for r, f in zip(rows, found, strict=True)]
    used = [(r, f) for r, f in zip(weighed, found, strict=True) if r is not None]
    context = context.with_state(_compare(context, used))
    known = _remember(context, [r for r, _ in used])
    learnt = context.with_state(_with_known(context.state, known))
    if _lost_trust(context, learnt):
        credit = context.policy.exploration.recalibration_seconds
        learnt = learnt.with_state(learnt.state.all_unsettled(credit))
    learnt = learnt.with_state(_follow_limits(learnt, seconds))
    learnt = learnt.with_state(_follow_acceptance(learnt, seconds))
    return learnt.with_state(_follow_engines(learnt, seconds))


def learn_overhead(context: TickContext) -> TickContext:
    """Compare the estimate of K=0 beside a drafter with readings of launches without one.

    All measurements of these are compared anew, since the estimate of K=0 improves with each probe. A result
    that is not more certain than before changes nothing.
    """
    canary, now, estimation = context.state.canary, context.now, context.policy.estimation
    rows = [row for row in context.undrafted.rows if row.k == 0]
    comparison = canary.comparison
    if not rows:
        if comparison is None or not comparison.over(now):
            return context
        return context.with_state(replace(context.state, canary=replace(canary, comparison=None)))
    overhead = context.overhead
    if comparison is None or comparison.over(now):
        comparison = Comparison(overhead)
    comparison = comparison.plus([ObservedCell.of(row, pace=0.0) for row in rows], now, estimation)
    cells, learning = comparison.cells, context.state.learning
    expected = predicted_steps(context, cells)
    noise = np.diag(noise_variances(cells, estimation, noise=context.noise, now=now))
    differences = expected.means - [cell.log_step for cell in cells]
    sides = 1 / max(len(learning.pods), 1) + 1 / len({row.pod for row in rows})
    found = comparison.before.after(
        differences,
        expected.covariance + noise,
        now,
        between_pods=sides * learning.pod_variance(estimation),
    )
    if found.measured(estimation) and found.variance < overhead.variance:
        canary = replace(canary, overhead=found)
    return context.with_state(replace(context.state, canary=replace(canary, comparison=comparison)))


def keep_ledger(context: TickContext) -> TickContext:
    """Book the gain of the K that ran over the static schedule, by the estimates of both.

    Probes of K=0 for the comparison with a launch without a drafter are not chosen, so they do not count.
    Their time does, as if the rest of the tick had filled it.
    """
    state = context.state
    compared = context.readings.bin is not None and k0_comparison.is_open(context)
    rows = [
        row
        for row in context.readings.rows
        if not (compared and row.k == 0 < state.schedule.k_at_mean(row.batch_size))
    ]
    total = sum(row.seconds for row in rows)
    if total <= 0:
        return context
    gain = drafting = error = 0.0
    for index in sorted({row.bin for row in rows}):
        of_bin, posterior = [row for row in rows if row.bin == index], context.posteriors[index]
        share = sum(row.seconds for row in of_bin) / total
        gain += share * _gain_over_static(of_bin, posterior, context)
        more, its_error = _gain_over_k0(of_bin, posterior, context)
        drafting, error = drafting + share * more, error + share * its_error
    seen = context.readings.rows
    seconds = sum(row.seconds for row in seen) / len({row.pod for row in seen})
    safety = context.policy.safety
    ledger = state.fallback.ledger.after(gain, drafting=(drafting, error), seconds=seconds, safety=safety)
    return context.with_state(replace(state, fallback=replace(state.fallback, ledger=ledger)))


def _gain_over_k0(rows: Sequence[Reading], posterior: Posterior, context: TickContext) -> tuple[float, float]:
    """log of the value of the K that ran over that of K=0, and its standard error. rows: of one batch bin."""
    if 0 not in posterior.candidates:
        return 0.0, 0.0
    if context.readings.survival is not None:
        found = posterior.followed_gain(Followed.of(rows[0].bin, posterior.candidates, rows), 0)
        return found or (0.0, 0.0)
    total = sum(row.seconds for row in rows)
    gains = [(row.seconds / total, *posterior.gain(row.k, 0)) for row in rows]
    return sum(share * gain for share, gain, _ in gains), sum(share * error for share, _, error in gains)


def _gain_over_static(rows: Sequence[Reading], posterior: Posterior, context: TickContext) -> float:
    """log of the value of the K that ran over that of the static schedule. rows: of one batch bin.

    Where the static schedule may break the limit on latency, nothing is booked, because it must not run.
    """
    static, policy = context.state.static, context.policy
    if context.readings.survival is not None:
        given = policy.allowed(static.k_at_mean(context.readings.batch_size(rows[0].bin)))
        if not _may_run(posterior, given, policy.safety):
            return 0.0
        found = posterior.followed_gain(Followed.of(rows[0].bin, posterior.candidates, rows), given)
        return 0.0 if found is None else found[0]
    total, gain = sum(row.seconds for row in rows), 0.0
    for row in rows:
        given = policy.allowed(static.k_at_mean(row.batch_size))
        if row.k != given and not _may_run(posterior, given, policy.safety):
            continue
        gain += row.seconds / total * posterior.gain(row.k, given)[0]
    return gain


def _may_run(posterior: Posterior, k: int, safety: Safety) -> bool:
    """Whether a K keeps the limit on latency, up to a risk of `latency_risk`; as `choice.keeping`."""
    limit = safety.inter_token_latency_limit
    return limit is None or posterior.keeps(k, limit) >= 1.0 - safety.latency_risk


def _with_known(state: TunerState, known: tuple[ObservedCell, ...]) -> TunerState:
    return replace(state, learning=replace(state.learning, known=known))


def _pace(learning: Learning, pod: str) -> float:
    """Log step time by which a pod is slower than the mean of all."""
    return learning.pods[pod].mean if pod in learning.pods else 0.0


def _pass_time(context: TickContext, seconds: float) -> TunerState:
    state, exploration = context.state, context.policy.exploration
    earning = 0.0 if state.fallback.active else min(seconds, _MAX_EARNING_SECONDS)
    credit = state.budget.credit + exploration.probe_share * earning
    budget = replace(
        state.budget.after(seconds, context.policy.safety.loss_seconds),
        credit=min(credit, exploration.probe_burst_seconds),
    )
    return replace(state, at=context.now, ticks=state.ticks + 1, budget=budget)


def _visit(context: TickContext) -> TunerState:
    state, readings, policy = context.state, context.readings, context.policy
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


def _weighed(row: Reading, found: _Residual, context: TickContext) -> Reading | None:
    """What counts of a reading; None if its step time is too noisy to be of use.

    A few steps that took ten times as long as they should look like a long measurement. So a reading weighs
    no more than the time that its steps should have taken. One or two steps count for nothing: those that
    read the first prompts would decide what prompts cost. The more prompts a reading has, the less it weighs.
    """
    residual, known, _ = found
    slower = max(0.0, residual - _pace(context.state.learning, row.pod))
    share = exp(-slower) if known < _ROUGHLY_KNOWN**2 else 1.0
    own = noise_variance(context.noise, share * row.seconds)
    of_few = _SINGLE_STEP**2 / row.steps
    if max(own, of_few) > _TOO_NOISY**2:
        return None
    return row.part(share * own / (max(own, of_few) + (_PROMPTS_MISFIT * row.log_prompts) ** 2))


def _compare(context: TickContext, used: Sequence[tuple[Reading, _Residual]]) -> TunerState:
    """Compare with the estimates: a pod may be slower, noise larger, or the engines changed."""
    state, estimation = context.state, context.policy.estimation
    learning = state.learning
    measured = {row.pod for row, _ in used}
    paces = _without_the_gone(learning.pods, measured)
    score = weight = 0.0
    several = len(measured) > 1
    for row, (residual, known, noise) in used:
        if several or paces:
            paces[row.pod] = paces.get(row.pod, Pace()).after(residual, known + noise)
            residual -= paces[row.pod].mean
        if sqrt(known) < _SURPRISE:
            z = residual / sqrt(known + noise)
            score, weight = score + z * sqrt(row.seconds), weight + row.seconds
            learning = learning.with_residual(z * z)
    learning = replace(learning, pods=_centred(paces))
    if weight <= 0:
        return replace(state, learning=learning)
    drift = learning.drift.after(score / sqrt(weight), estimation)
    state = replace(state, learning=replace(learning, drift=drift))
    return _changed(state, context) if drift.found(estimation) else state


def _changed(state: TunerState, context: TickContext) -> TunerState:
    """Reduce the weight of step times and open every choice again, because the engines changed.

    It may have been noise, too; so the next alarm needs a little more.
    """
    learning, policy = state.learning, context.policy
    known = tuple(replace(k, seconds=k.seconds * policy.estimation.drift_keep) for k in learning.known)
    learning = replace(learning, known=known, drift=Drift()).noisier()
    state = replace(state, learning=learning, fallback=state.fallback.expired(context.now))
    return state.all_unsettled(policy.exploration.recalibration_seconds)


def _without_the_gone(paces: Mapping[str, Pace], measured: Set[str]) -> dict[str, Pace]:
    """The paces without those of pods that were replaced; pods are not named twice."""
    if measured <= paces.keys():
        return dict(paces)
    return {pod: pace for pod, pace in paces.items() if pod in measured}


def _centred(paces: Mapping[str, Pace]) -> dict[str, Pace]:
    """Only differences between pods are known, so they sum to 0."""
    if not paces:
        return {}
    middle = sum(p.mean for p in paces.values()) / len(paces)
    return {pod: replace(p, mean=p.mean - middle) for pod, p in paces.items()}


def _remember(context: TickContext, rows: Sequence[Reading]) -> tuple[ObservedCell, ...]:
    learning, estimation = context.state.learning, context.policy.estimation
    known = {k.key: k for k in learning.known}
    for row in rows:
        new = ObservedCell.of(row, _pace(learning, row.pod))
        known[new.key] = known[new.key].plus(new, estimation) if new.key in known else new
    if len(known) > MAX_KNOWN:
        heaviest = sorted(known.values(), key=lambda k: -k.seconds_at(context.now, estimation))
        known = {k.key: k for k in heaviest[:MAX_KNOWN]}
    return tuple(sorted(known.values(), key=lambda k: (k.bin, k.k, -1 if k.octave is None else k.octave)))


def _lost_trust(before: TickContext, after: TickContext) -> bool:
    """Whether the newest readings threw doubt on the profile, so that what was settled with it is open."""
    profile, estimation, noise = after.step_times, after.policy.estimation, after.noise
    if profile is None or not profile.compares:
        return False
    old, new = (
        trust_in(profile, each.state.learning.known, estimation, noise=noise, now=after.now)
        for each in (before, after)
    )
    return new < _DOUBT <= old


def _follow_limits(context: TickContext, seconds: float) -> TunerState:
    """The ratio of requests with a K limit, by position; it moves with the traffic as acceptance does."""
    state, rows = context.state, context.readings.rows
    known, counts = state.learning.limited, tuple[float, ...]((0.0,))
    for row in rows:
        counts = summed(counts, row.limited)
    if not (known or any(counts)):
        return state
    keep = 0.5 ** (seconds / context.policy.estimation.acceptance_half_life_seconds) if known else 0.0
    requests = sum(row.requests for row in rows)
    now = [min(count / requests, 1.0) * (1.0 - keep) for count in counts]
    limited = summed([share * keep for share in known], now)[:MAX_K]
    limited = limited if max(limited) >= _FEW_LIMITS else ()
    return replace(state, learning=replace(state.learning, limited=limited))


def _follow_engines(context: TickContext, seconds: float) -> TunerState:
    """The gain of the steps of engines that choose K themselves."""
    state, readings = context.state, context.readings
    followed = None
    if readings.survival is not None and readings.bin is not None:
        followed = Followed.of(readings.bin, context.policy.candidates, readings.of(readings.bin))
        if state.learning.followed is not None:
            followed = state.learning.followed.after(followed, seconds)
    return replace(state, learning=replace(state.learning, followed=followed))


def _follow_acceptance(context: TickContext, seconds: float) -> TunerState:
    """First-position acceptance does not depend on K, so its history spans all schedules."""
    state, readings, policy = context.state, context.readings, context.policy
    newest = first_position(readings)
    if readings.survival is not None:
        learning = _follow_mean_acceptance(state.learning, readings.survival, newest, seconds, policy)
        return replace(state, learning=learning)
    profile = state.learning.profile.after(readings.rows, seconds, policy.estimation)
    learning = replace(state.learning, profile=profile)
    if profile.shifted:
        state = state.all_unsettled(policy.exploration.recalibration_seconds)
        state = replace(state, fallback=state.fallback.expired(context.now))
    if newest.drafted <= 0:
        # Without drafts nothing is known, and the tuner must be able to leave K=0.
        return replace(state, learning=replace(learning, collapsed=0))
    collapsed = has_collapsed(newest, history_of(learning), ratio=policy.safety.collapse_ratio)
    learning = _with_history(learning, newest, seconds, policy.estimation)
    learning = replace(learning, collapsed=learning.collapsed + 1 if collapsed else 0)
    return replace(state, learning=learning)


def _follow_mean_acceptance(
    learning: Learning, survival: Sequence[float], newest: Drafts, seconds: float, policy: Policy
) -> Learning:
    """Take the acceptance that engines averaged over engine time, since they draft where drafts pay.

    So the history is that mean. A collapse has to show in the newest drafts and in the mean: where texts
    alternate within seconds, the mean stays. A mean that falls slowly while drafts fail joins the history
    with little weight, else a short history would fall with it. At K=0 engines count no drafts, and only
    their mean shows that drafts fail.
    """
    history, mean = history_of(learning), Drafts(survival[0] * _FOLLOWED_DRAFTS, _FOLLOWED_DRAFTS)
    learning = replace(learning, profile=Profile.of_survival(survival, _FOLLOWED_DRAFTS))
    fallen = history.drafted > 0 and mean.rate < _FALLEN_RATIO * history.rate
    counted = newest.drafted > 0
    fail = has_collapsed(newest, history, ratio=policy.safety.collapse_ratio) if counted else fallen
    joining = mean.weighted(_FAILING_WEIGHT) if fail else mean
    learning = _with_history(learning, joining, seconds, policy.estimation)
    ticks = learning.collapsed + counted if fail and fallen else 0
    return replace(learning, collapsed=ticks)


def history_of(learning: Learning) -> Drafts:
    """The drafts of the first position that a collapse is measured against."""
    return Drafts(learning.first_accepted, learning.first_drafted)


def _with_history(learning: Learning, newest: Drafts, seconds: float, estimation: Estimation) -> Learning:
    left = 0.5 ** (seconds / estimation.half_life_seconds)
    return replace(
        learning,
        first_accepted=learning.first_accepted * left + newest.accepted,
        first_drafted=learning.first_drafted * left + newest.drafted,
    )
