"""The tuner: measurements and memory in, the wanted schedule and perhaps a probe out. Pure.

Every tick learns the step-time surface and the acceptance from what was measured. Both give a goodput with an
uncertainty for every K at every batch size. The current batch bin gets the K that is best beyond doubt, the
other bins what follows for them. A probe of another K runs if knowing it better is worth more than it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from outrider.api.reasons import DecisionReason
from outrider.api.schedule import Schedule
from outrider.tuning.choose import choice, guardrails
from outrider.tuning.choose.static_fallback import pinned
from outrider.tuning.choose.switching import change
from outrider.tuning.cost_model import cost_model_of
from outrider.tuning.decision import Decision, Kind, Proposal
from outrider.tuning.estimate.latency import learn_tail, with_tail
from outrider.tuning.estimate.learning import keep_ledger, learn, learn_tax
from outrider.tuning.estimate.posterior import beliefs
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.explore.probing import attempt
from outrider.tuning.explore.tie_breaking import turn
from outrider.tuning.observe.readings import read
from outrider.tuning.observe.window import Observation, Window
from outrider.tuning.policy import Policy
from outrider.tuning.report import report
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.without_drafter import launched_without

_MAX_INTERVAL = 60.0
"""Seconds. After a longer pause the next tick is taken to come after this long, unless the caller knows."""
_FIRST_INTERVAL = 10.0


def decide(
    observations: Sequence[Observation],
    state: TunerState,
    *,
    policy: Policy,
    now: float,
    in_force: Schedule | None = None,
    without_drafter: Sequence[Observation] = (),
    step_times: StepTimeProfile | None = None,
    tick_seconds: float | None = None,
) -> Decision:
    """One tick of the tuner. Bad measurements never raise; they hold.

    observations: one per ready pod, in any order. Windows of neighbouring ticks must not
        overlap, and none may begin before the wanted table was confirmed.
    now: unix seconds.
    in_force: the schedule that the engines ran with where decisions are not carried out (mode
        Observe, or `policy.relaunching()`); then nothing is tried. None: the wanted one of `state`.
    without_drafter: of the pods that were launched without one. They show the overhead of the idle
        drafter, and the load where no other pod is measured.
    step_times: what these engines measured of themselves before they served; None if they measured none.
    tick_seconds: until the next tick, by which a probe has ended; by default as long as since the last one.
    """
    if in_force is not None:
        policy = policy.observing()
    # In a fixed order, since the rounding of sums depends on it.
    ordered = _in_order(observations)
    windows, apart = _windows(ordered), _windows(_in_order(without_drafter))
    readings = read(windows, in_force or state.schedule, policy)
    bare = read(apart, Schedule.constant(0), policy)

    learnt = learn(state, readings, policy, now, step_times=step_times)
    undrafted = tuple(r for r in bare.rows if r.k == 0)
    learnt = learn_tax(learnt, undrafted, policy.estimation, now, step_times=step_times)
    if without_drafter and not observations:
        return launched_without(learnt, bare, policy, now, step_times=step_times)

    view = None
    if readings.bin is not None:
        believed = beliefs(learnt, readings, policy, now, step_times=step_times)
        learnt = learn_tail(learnt, windows, readings, believed, policy, now)
        believed = with_tail(believed, learnt.tail)
        interval = _interval(state, now) if tick_seconds is None else tick_seconds
        view = TickContext(learnt, policy, now, interval, readings.bin, believed, readings, windows, bare)
        learnt = keep_ledger(learnt, readings, believed, policy, compared=view.compares)
        view = view.with_state(learnt)

    veto = guardrails.first_veto(guardrails.SIGHT, guardrails.Sight(ordered, readings))
    if view is None or veto is not None:
        veto = veto or guardrails.NOTHING_SEEN
        wish = Proposal(Kind.HOLD, veto.reason, veto.sentence, learnt)
    else:
        wish = _wish(view.with_state(choice.follow(learnt, view.beliefs, view.bin, policy, now)))
    decision = report(wish, view, before=state.schedule, windows=windows, policy=policy, in_force=in_force)
    if view is None or in_force is not None:
        return decision
    return replace(decision, cost_model=partial(cost_model_of, view, decision.state, step_times))


def _wish(view: TickContext) -> Proposal:
    """The static schedule if tuning does not pay; else another K for this bin; else a probe of one."""
    view = view.with_state(_queue(view))
    if (held := pinned(view)) is not None:
        return held
    chosen = change(view)
    if chosen.reason is DecisionReason.SETTLED:
        chosen = turn(view) or chosen
    view = view.with_state(chosen.state)
    tried = attempt(view.of_step_times_alone() if view.state.followed is not None else view)
    if chosen.kind is not Kind.HOLD:
        return replace(chosen, state=tried.state, probe=tried.probe)
    return tried if tried.kind is not Kind.HOLD or chosen.reason is DecisionReason.SETTLED else chosen


def _queue(view: TickContext) -> TunerState:
    """Since when requests wait. A pod without this gauge changes nothing."""
    waiting, since = view.waiting, view.state.queued_since
    if waiting is None:
        return view.state
    return replace(view.state, queued_since=(view.now if since is None else since) if waiting > 0 else None)


def _in_order(observations: Sequence[Observation]) -> list[Observation]:
    if len(observations) < 2:
        return list(observations)
    return sorted(observations, key=lambda o: (o.pod, repr(o)))


def _windows(observations: Sequence[Observation]) -> tuple[Window, ...]:
    return tuple(o for o in observations if isinstance(o, Window))


def _interval(state: TunerState, now: float) -> float:
    """Seconds since the tick before, as they are taken to lie before the next one, too."""
    return _FIRST_INTERVAL if state.at is None else min(max(now - state.at, 0.0), _MAX_INTERVAL)
