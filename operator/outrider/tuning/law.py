"""The tuning law: measurements and memory in, the wanted table and perhaps a probe out. Pure.

Every tick: learn the step-time surface and the acceptance from what was measured; believe, from
both, a goodput with an uncertainty for every K at every batch size; give the bin of now the K that
is best beyond doubt, and the other bins what follows for them; try another K where knowing it
better is worth more than the trial costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import expm1

from outrider.api.schedule import Schedule
from outrider.tuning import words
from outrider.tuning.choose import choice, guardrails
from outrider.tuning.decision import Decision, DecisionReason, Kind, Wish
from outrider.tuning.estimate.belief import beliefs
from outrider.tuning.estimate.learning import keep_ledger, learn, learn_tax
from outrider.tuning.explore.trying import attempt
from outrider.tuning.idle import launched_without
from outrider.tuning.observe.readings import read
from outrider.tuning.observe.window import Observation, Window
from outrider.tuning.policy import Policy
from outrider.tuning.report import report
from outrider.tuning.state import Ledger, Trial, TunerState
from outrider.tuning.view import View

_LONGEST_INTERVAL = 60.0
"""Seconds. After a longer pause the next tick is taken to come after this long."""
_FIRST_INTERVAL = 10.0


def decide(
    observations: Sequence[Observation],
    state: TunerState,
    *,
    policy: Policy,
    now: float,
    in_force: Schedule | None = None,
    without_drafter: Sequence[Observation] = (),
) -> Decision:
    """One tick of the tuning law. Bad measurements never raise; they hold.

    observations: one per ready pod, in any order. Windows of neighbouring ticks must not
        overlap, and none may begin before the wanted table was confirmed.
    now: unix seconds.
    in_force: the table that the engines ran with where decisions are not carried out (mode
        Observe, or `policy.relaunching()`); then nothing is tried. None: the wanted one of `state`.
    without_drafter: of the pods that were launched without one. They tell the tax of K=0, and the
        load where no other pod is measured.
    """
    if in_force is not None:
        policy = policy.observing()
    # In a fixed order, since the rounding of sums depends on it.
    ordered = _in_order(observations)
    windows = tuple(o for o in ordered if isinstance(o, Window))
    readings = read(windows, in_force or state.schedule, policy)
    interval = _FIRST_INTERVAL if state.at is None else min(max(now - state.at, 0.0), _LONGEST_INTERVAL)
    learnt = learn(state, readings, policy, now)
    apart = (o for o in _in_order(without_drafter) if isinstance(o, Window))
    bare = read(apart, Schedule.constant(0), policy)
    learnt = learn_tax(learnt, tuple(r for r in bare.rows if r.k == 0), policy, now)
    if without_drafter and not observations:
        return launched_without(learnt, bare, policy, now)
    view = None
    if readings.bin is not None:
        believed = beliefs(learnt, readings, policy, now)
        learnt = keep_ledger(learnt, readings, believed, policy)
        view = View(learnt, policy, now, interval, readings.bin, believed, readings, windows, bare)
    veto = guardrails.first_veto(guardrails.SIGHT, guardrails.Sight(ordered, readings))
    if view is None or veto is not None:
        wish = _blind(learnt, veto or guardrails.NOTHING_SEEN, policy, now)
    else:
        wish = _wish(view.with_state(choice.follow(learnt, view.beliefs, view.bin, policy, now)))
    return report(wish, view, before=state.schedule, windows=windows, policy=policy)


def _in_order(observations: Sequence[Observation]) -> list[Observation]:
    return sorted(observations, key=lambda o: (o.pod, repr(o)))


def _blind(state: TunerState, veto: guardrails.Veto, policy: Policy, now: float) -> Wish:
    """Hold; but a trial must not stick when nobody measures it."""
    trial = state.trial
    if trial is None or not trial.starved(policy, now):
        return Wish(Kind.HOLD, veto.reason, veto.sentence, state)
    sentence = f"trial of K {trial.k} given up after {now - trial.heard_at:.0f} s: {veto.sentence}"
    return Wish(
        Kind.ROLL_BACK,
        DecisionReason.TRIAL_STARVED,
        sentence,
        replace(state, trial=None),
        explained=frozenset({trial.bin}),
    )


def _wish(view: View) -> Wish:
    if (pinned := _pinned(view)) is not None:
        return pinned
    trial = view.state.trial
    if view.trial is not None and view.trial.seconds <= 0 and not view.trial.starved(view.policy, view.now):
        return view.hold(DecisionReason.MEASURING, f"measuring K {view.trial.k}")
    view = view.with_state(replace(view.state, trial=None))
    chosen = _choose(view)
    view = view.with_state(chosen.state)
    tried = attempt(view)
    if chosen.kind is not Kind.HOLD:
        return replace(chosen, state=tried.state, probe=tried.probe)
    if trial is not None and tried.kind is not Kind.EXPLORE:
        return _ended(view, trial, tried)
    return tried if tried.kind is not Kind.HOLD or chosen.reason is DecisionReason.SETTLED else chosen


def _choose(view: View) -> Wish:
    """The K of this bin, as far as the guardrails let it change."""
    bin_state, belief = view.bin_state, view.belief
    back = choice.reverted(bin_state, belief, view.policy, view.now)
    k = (
        back
        if back is not None
        else choice.challenger(bin_state, belief, choice.seen(view.state), view.policy)
    )
    if k is None:
        return view.hold_settled()
    veto = guardrails.first_veto(guardrails.STEP, guardrails.Step(k, view, revert=back is not None))
    if veto is not None:
        return view.hold(veto.reason, veto.sentence)
    settled = bin_state.settled_at is not None
    changed = bin_state.changed_to(k, view.now, settled=settled)
    state = view.state.with_bin(view.bin, replace(changed, replaced=None) if back is not None else changed)
    sentence = view.say(words.change(belief, bin_state.k, k, view.policy))
    if back is not None:
        return Wish(Kind.ROLL_BACK, DecisionReason.WORSE_THAN_BEFORE, sentence, state)
    gain = expm1(belief.gain(k, bin_state.k)[0])
    return Wish(Kind.EXPLOIT, words.reason(belief, bin_state.k, k, view.policy), sentence, state, gain)


def _pinned(view: View) -> Wish | None:
    """Where tuning does not pay, the static table stays for as long as it took to find out."""
    state, policy, ledger = view.state, view.policy, view.state.ledger
    if (left := state.pinned_seconds(view.now)) > 0:
        return view.hold(DecisionReason.PINNED, f"the static table stays for {left:.0f} s")
    everywhere = frozenset(view.beliefs)
    if state.pinned:
        sentence = view.say("the static table stayed long enough, what was chosen rules again")
        unpinned = replace(state, pinned_until=None)
        return Wish(Kind.EXPLOIT, DecisionReason.UNPINNED, sentence, unpinned, explained=everywhere)
    if ledger.weight < 0.5 or ledger.gain >= -policy.ledger_loss * ledger.weight:
        return None
    pinned = replace(state, trial=None, ledger=Ledger(), pinned_until=view.now + policy.ledger_seconds)
    sentence = view.say(f"the static table was {-100 * ledger.gain / ledger.weight:.0f} % better, it stays")
    return Wish(Kind.ROLL_BACK, DecisionReason.PINNED, sentence, pinned, explained=everywhere)


def _ended(view: View, trial: Trial, tried: Wish) -> Wish:
    """A trial is over and nothing follows."""
    tried = replace(tried, kind=Kind.ROLL_BACK, explained=frozenset({trial.bin}))
    if trial.bin != view.bin:
        sentence = view.say(f"the load left batch {view.policy.label(trial.bin)}, trial of K {trial.k} ends")
        return replace(tried, reason=DecisionReason.LOAD_MOVED, sentence=sentence)
    k = view.bin_state.k
    sentence = view.say(f"K {trial.k} is not better, {view.rate(trial.k)} vs {view.rate(k)}")
    return replace(tried, reason=DecisionReason.PROBE_LOST, sentence=sentence)
