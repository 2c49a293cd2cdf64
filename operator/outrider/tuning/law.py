"""The tuning law: measurements and memory in, the wanted table out. Pure.

A batch bin that is new is calibrated: every candidate K runs there for one window, close
ones for more, then the best takes over. A settled K gives way only to one that is better
beyond noise; rare probes keep the others known. What drifts is measured anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from outrider.api.schedule import Schedule
from outrider.tuning import guardrails
from outrider.tuning.attribution import attribute
from outrider.tuning.decision import Decision, DecisionReason, Kind, Wish
from outrider.tuning.explore import best, taught_by_other_bins, to_calibrate, to_probe
from outrider.tuning.learn import learn
from outrider.tuning.policy import Policy
from outrider.tuning.report import report
from outrider.tuning.state import Purpose, Trial, TunerState
from outrider.tuning.view import View
from outrider.tuning.window import Observation, Window


def decide(
    observations: Sequence[Observation],
    state: TunerState,
    *,
    policy: Policy,
    now: float,
    in_force: Schedule | None = None,
) -> Decision:
    """One tick of the tuning law. Bad measurements never raise; they hold.

    observations: one per ready pod, in any order. Windows of neighbouring ticks must not
        overlap, and none may begin before the wanted table was confirmed.
    now: unix seconds.
    in_force: the table that the engines ran with where decisions are not carried out (mode
        Observe); then nothing is tried. None: the wanted one of `state`.
    """
    if in_force is not None:
        policy = policy.observing()
    # In a fixed order, since the rounding of sums depends on it.
    ordered = sorted(observations, key=lambda o: (o.pod, repr(o)))
    windows = [o for o in ordered if isinstance(o, Window)]
    readings = attribute(windows, in_force or state.schedule, policy)
    learnt = learn(state, readings, windows, policy, now)
    view = View.of(learnt, readings, policy, now)
    veto = guardrails.first_veto(guardrails.SIGHT, guardrails.Sight(ordered, readings))
    if view is None or veto is not None:
        wish = _blind(learnt, veto or guardrails.NOTHING_SEEN, policy, now)
    else:
        wish = _guarded(view, _wish(view))
    return report(wish, view, before=state.schedule, windows=windows, policy=policy)


def _blind(state: TunerState, veto: guardrails.Veto, policy: Policy, now: float) -> Wish:
    """Hold; but a trial must not stick when nobody measures it."""
    trial = state.trial
    if trial is None or now - trial.heard_at <= policy.trial_timeout_seconds:
        return Wish(Kind.HOLD, veto.reason, veto.sentence, state)
    sentence = f"trial of K {trial.k} given up after {now - trial.heard_at:.0f} s: {veto.sentence}"
    return Wish(Kind.ROLL_BACK, DecisionReason.TRIAL_STARVED, sentence, state.without_trial(now))


def _guarded(view: View, wish: Wish) -> Wish:
    """The wish, or what a veto leaves of it: the settled table."""
    if wish.kind not in (Kind.EXPLORE, Kind.EXPLOIT):
        return wish
    trial = wish.state.trial
    k = wish.state.bins[view.bin].k if trial is None else trial.k
    veto = guardrails.first_veto(guardrails.STEP, guardrails.Step(wish, k, view))
    if veto is None:
        return wish
    kind = Kind.HOLD if view.state.trial is None else Kind.ROLL_BACK
    return Wish(kind, veto.reason, view.say(veto.sentence), view.without_trial().state)


def _wish(view: View) -> Wish:
    trial = view.trial
    if trial is None and view.state.trial is not None:
        return _left_behind(view)
    if trial is not None and not trial.done(view.policy):
        return _hold(view, DecisionReason.MEASURING, f"measuring K {trial.k}")
    if view.bin_state.settled_at is None:
        return _calibrate(view)
    return _settled(view) if trial is None else _after_probe(view, trial)


def _left_behind(view: View) -> Wish:
    """The load left the bin of the trial: go on with the bin that it is in now."""
    wish = _wish(view.without_trial())
    if wish.kind is not Kind.HOLD:
        return wish
    return replace(wish, kind=Kind.ROLL_BACK, reason=DecisionReason.LOAD_MOVED)


def _calibrate(view: View) -> Wish:
    mine = view.bin_state.measured.get(view.bin_state.k)
    if view.trial is None and (mine is None or mine.seconds < view.policy.trial_seconds):
        return _hold(view, DecisionReason.MEASURING, f"measuring K {view.bin_state.k}")
    after = view.without_trial()
    taught = taught_by_other_bins(view.state, view.bin, view.now, view.policy)
    k = to_calibrate(after.bin_state, view.scores, taught, view.policy)
    if k is None:
        tick = view.now - view.trial.started_at if view.trial else view.policy.trial_seconds
        return _settle(after, tick)
    sentence = view.say(f"trying K {k}, K {view.bin_state.k} has {view.rate(view.bin_state.k)}")
    trial = Trial.begin(view.bin, k, Purpose.CALIBRATION, view.now)
    return Wish(Kind.EXPLORE, DecisionReason.CALIBRATION, sentence, replace(after.state, trial=trial))


def _settle(view: View, tick: float) -> Wish:
    """The best measured K takes over; `tick` is how long a trial takes here, in seconds."""
    k, old = best(view.scores, view.policy), view.bin_state.k
    probe_at = view.now + view.policy.probe_pause(tick, lost=0)
    if k != old:
        chosen = replace(view.bin_state.changed_to(k, view.now), probe_at=probe_at)
        gain = view.scores[k].gain_over(view.scores[old]) if old in view.scores else None
        state = view.state.with_bin(view.bin, chosen)
        return Wish(Kind.EXPLOIT, DecisionReason.CALIBRATED, view.comparison(old, k), state, gain)
    stays = replace(view.bin_state, decided=True, settled_at=view.now, probe_at=probe_at)
    state = view.state.with_bin(view.bin, stays)
    sentence = view.say(f"K stays {k}, {view.rate(k)}, best of {len(view.scores)} measured")
    return Wish(Kind.EXPLOIT, DecisionReason.CALIBRATED, sentence, state)


def _settled(view: View) -> Wish:
    bin_state, scores, policy = view.bin_state, view.scores, view.policy
    k = bin_state.k
    if k not in scores:
        return _hold(view, DecisionReason.MEASURING, f"measuring K {k}")
    before = None if bin_state.replaced is None else scores.get(bin_state.replaced)
    if before is not None:
        loss = before.mean - scores[k].mean
        if loss > max(policy.rollback_loss * before.mean, scores[k].error_with(before)):
            back = replace(bin_state.changed_to(before.k, view.now), replaced=None)
            state = view.state.with_bin(view.bin, back)
            return Wish(Kind.ROLL_BACK, DecisionReason.WORSE_THAN_BEFORE, view.comparison(k, before.k), state)
    if bin_state.rival is not None:
        return _replace(view, bin_state.rival)
    other = to_probe(bin_state, scores, policy) if view.now >= bin_state.probe_at else None
    if other is None:
        return _hold(view, DecisionReason.SETTLED, f"K {k} is the best known, {view.rate(k)}")
    sentence = view.say(f"another look at K {other}, K {k} has {view.rate(k)}")
    trial = Trial.begin(view.bin, other, Purpose.PROBE, view.now)
    return Wish(Kind.EXPLORE, DecisionReason.PROBE, sentence, replace(view.state, trial=trial))


def _after_probe(view: View, trial: Trial) -> Wish:
    """A clear winner takes over, a promising K is measured longer, a loser goes and waits."""
    k, scores = view.bin_state.k, view.scores
    if view.bin_state.rival == trial.k:
        return _replace(view, trial.k)
    rates = f"{view.rate(trial.k)} vs {view.rate(k)}"
    promising = k in scores and scores[trial.k].mean > scores[k].mean
    spent = view.now - trial.began_at
    if promising and spent < view.policy.probe_seconds:
        again = replace(Trial.begin(view.bin, trial.k, Purpose.PROBE, view.now), began_at=trial.began_at)
        state = replace(view.state, trial=again)
        return Wish(
            Kind.EXPLORE, DecisionReason.PROBE, view.say(f"K {trial.k} looks promising, {rates}"), state
        )
    lost = view.bin_state.lost_probes + (not promising)
    rested = replace(
        view.bin_state, lost_probes=lost, probe_at=view.now + view.policy.probe_pause(spent, lost=lost)
    )
    state = view.state.with_bin(view.bin, rested).without_trial(view.now)
    return Wish(
        Kind.ROLL_BACK, DecisionReason.PROBE_LOST, view.say(f"K {trial.k} is not better, {rates}"), state
    )


def _replace(view: View, k: int) -> Wish:
    """A clearly better K takes over from a settled one."""
    old = view.bin_state.k
    gain = view.scores[k].gain_over(view.scores[old])
    state = view.without_trial().state.with_bin(view.bin, view.bin_state.changed_to(k, view.now))
    return Wish(Kind.EXPLOIT, DecisionReason.BETTER_K, view.comparison(old, k), state, gain)


def _hold(view: View, reason: DecisionReason, words: str) -> Wish:
    return Wish(Kind.HOLD, reason, view.say(words), view.state)
