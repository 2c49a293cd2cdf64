"""Measurements of other K in the current batch bin: probes, and turns of K with equal estimates.

Probes are short, so they hardly distinguish values of K that are nearly equal. Running such a K in the
schedule costs nothing, so the least measured one runs as long as any chosen K.

Source: the online knowledge gradient of Ryzhov, Powell and Frazier 2012. It adds the worth of the information
from a choice to its gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from outrider.api.reasons import DecisionReason
from outrider.tuning.choose import choice, guardrails
from outrider.tuning.decision import Kind, Probe, Proposal, Slice
from outrider.tuning.explore import probe_plan
from outrider.tuning.k0_comparison import plan_comparison
from outrider.tuning.state import ProbeCost, TunerState
from outrider.tuning.tick_context import TickContext

_MAX_INTERVAL_RATIO = 0.9
"""Ratio of the time between two ticks that probes may use, so that they end before the next."""
_TIE_BREAKING_RATIO = 0.5
"""Ratio of the changes per hour for K with equal estimates; the rest is for a K that proves better."""


def break_tie(context: TickContext) -> TickContext:
    """Run the least measured of several equal K, if a settled bin would keep its K otherwise."""
    chosen = context.chosen
    if chosen is None or chosen.reason is not DecisionReason.SETTLED:
        return context
    bin_state, posterior = context.bin_state, context.posterior
    max_switches = _TIE_BREAKING_RATIO * context.policy.choice.switches_per_hour
    if bin_state.settled_at is None or bin_state.recent_switches(context.now) + 1 > max_switches:
        return context
    k = _most_informative(context)
    if k == bin_state.k or guardrails.first_veto(guardrails.STEP, guardrails.Step(k, context)) is not None:
        return context
    state = context.state.with_bin(context.bin, bin_state.changed_to(k, context.now, settled=True))
    sentence = context.say(
        f"K {bin_state.k} -> {k}, equal within the error, {context.rate(k)} vs {context.rate(bin_state.k)}, "
        f"and less measured (± {100 * posterior.gain(k, bin_state.k)[1]:.0f} %)"
    )
    reason, explained = DecisionReason.MOST_INFORMATIVE, frozenset({context.bin})
    turn = Proposal(Kind.EXPLORE, reason, sentence, state, explained=explained)
    return replace(context, chosen=turn, state=state)


def probe(context: TickContext) -> Proposal:
    """Add probes to the choice. If it holds, a probe or the end of calibration takes its place."""
    chosen = context.chosen or context.hold_settled()
    if context.state.learning.followed is not None:
        # Such engines count acceptance themselves, so other K teach step times alone.
        posteriors = {index: each.of_step_times_alone() for index, each in context.posteriors.items()}
        context = replace(context, posteriors=posteriors)
    planned = plan_probes(context)
    if chosen.kind is not Kind.HOLD:
        return replace(chosen, state=planned.state, probe=planned.probe)
    holds = planned.kind is Kind.HOLD and chosen.reason is not DecisionReason.SETTLED
    return chosen if holds else planned


def plan_probes(context: TickContext) -> Proposal:
    """Plan probes that are worth their cost, allowed and affordable; otherwise the bin is settled."""
    veto = guardrails.first_veto(guardrails.PROBING, context)
    if veto is not None:
        return context.hold(veto.reason, veto.sentence)
    context = _with_refunds(context)
    length = _probe_seconds(context)
    room = _room(context, length)
    comparisons, context = plan_comparison(context, length, room)
    planned = _plan(context, length, room - comparisons * length)
    ks = (0,) * comparisons + planned.ks
    if not planned.ks:
        credit_left = _credit(context) >= length
        settled = _settled(context, may_continue=credit_left and not planned.saturated)
        if not ks or settled.kind is Kind.EXPLOIT:
            return replace(settled, probe=_probe(context, ks, length) if ks else None)
    state = _paid(context, planned, length)
    k, calibrating = context.bin_state.k, context.bin_state.settled_at is None
    reason = DecisionReason.CALIBRATION if calibrating else DecisionReason.PROBE
    sentence = f"probe of K {', '.join(map(str, ks))}, {length:.1f} s each; K {k} has {context.rate(k)}"
    return Proposal(Kind.EXPLORE, reason, context.say(sentence), state, probe=_probe(context, ks, length))


def _most_informative(context: TickContext) -> int:
    """Return the K within `min_gain` of the best whose next turn has the maximum worth."""
    policy, posterior, now = context.policy, context.posterior, context.bin_state.k
    allowed = choice.usable(posterior, policy)
    measured = choice.measured_ks(context.state) | posterior.mapped
    best = posterior.best(allowed)
    equals = {k for k in allowed if k in measured and posterior.gain(best, k)[0] <= policy.choice.min_gain}
    if now not in equals or policy.exploration.probe_share <= 0:
        return now
    terms = _terms(context, policy.choice.dwell_seconds)
    worth = probe_plan.worth_of_measuring(posterior, allowed, terms)
    k = max(equals, key=lambda k: (worth[k], -k))
    return k if worth[k] > worth[now] + policy.choice.min_gain else now


def _settled(context: TickContext, *, may_continue: bool) -> Proposal:
    """End the calibration of the bin. may_continue: only the loss budget prevents probes now."""
    bin_state = context.bin_state
    k = bin_state.k
    if bin_state.settled_at is not None or may_continue:
        return context.hold_settled()
    settled = replace(bin_state, decided=True, settled_at=context.now)
    state = context.state.with_bin(context.bin, settled)
    sentence = context.say(f"K stays {k}, {context.rate(k)}")
    return Proposal(Kind.EXPLOIT, DecisionReason.CALIBRATED, sentence, state)


def _credit(context: TickContext) -> float:
    """Return the seconds that probes may take now."""
    bin_state = context.bin_state
    return bin_state.credit if bin_state.settled_at is None else context.state.budget.credit


def _room(context: TickContext, length: float) -> float:
    """Return the seconds that probes may take until the next tick.

    If a tick is shorter than a probe, one probe runs beyond the next tick. A limit on the slowest tenth of
    all gaps leaves room for one probe.
    """
    if not context.readings.exact:
        return 0.0
    if context.policy.safety.inter_token_latency_limit is not None:
        return length
    return max(_MAX_INTERVAL_RATIO * context.tick_seconds, length)


def _terms(context: TickContext, seconds: float) -> probe_plan.Terms:
    """Return the conditions under which a probe of this length is worth its cost."""
    safety = context.policy.safety
    return probe_plan.Terms(
        seconds=seconds,
        horizon=context.policy.exploration.horizon_seconds * _pods(context),
        noise=context.noise,
        loss_sigmas=safety.loss_sigmas,
        untouched_loss=0.9 * _loss_budget(context),
        safe_loss=safety.safe_loss,
        safe_sigmas=safety.safe_sigmas,
    )


def _loss_budget(context: TickContext) -> float:
    """Return the allowed cost of probes in `loss_seconds`, in seconds of the smallest K's goodput."""
    safety = context.policy.safety
    return safety.loss_budget * safety.loss_seconds * _pods(context)


def _plan(context: TickContext, length: float, room: float) -> probe_plan.Plan:
    return probe_plan.plan(
        context.posterior,
        context.bin_state.k,
        _worth_trying(context),
        _terms(context, length),
        seconds=min(_credit(context), room),
        loss=_loss_budget(context) - context.state.budget.loss * _pods(context),
    )


def _worth_trying(context: TickContext) -> tuple[int, ...]:
    """While acceptance is far below its history, only the present K and smaller ones."""
    if context.state.learning.acceptance_collapsed:
        return (*choice.smaller(context), context.bin_state.k)
    return choice.worth_trying(context.posterior, context.policy)


def _with_refunds(context: TickContext) -> TickContext:
    """Book recent probes at what they cost by the present estimates, where that is less than was expected.

    The first probe of a K may be expected to cost the whole budget. If that K proves good, its probe has cost
    nothing, and the budget is free for others. A probe that now seems to have cost more keeps its cost: after
    a change of text, the estimates are not those of its time.
    """
    budget, posteriors = context.state.budget, context.posteriors
    smallest = min(context.policy.candidates)
    probes = (
        replace(
            each, loss=min(each.loss, probe_plan.cost(posteriors[each.bin], each.k, smallest) * each.seconds)
        )
        if each.bin in posteriors
        else each
        for each in budget.probes
    )
    return context.with_state(replace(context.state, budget=replace(budget, probes=tuple(probes))))


def _paid(context: TickContext, planned: probe_plan.Plan, length: float) -> TunerState:
    """Subtract time and cost of the probes when they are requested. length: seconds of each."""
    bin_state, budget, pods = context.bin_state, context.state.budget, _pods(context)
    seconds = len(planned.ks) * length
    for k, loss in zip(planned.ks, planned.losses, strict=True):
        budget = budget.with_probe(ProbeCost(context.bin, k, length / pods, loss / pods))
    if bin_state.settled_at is None:
        bin_state = replace(bin_state, credit=max(0.0, bin_state.credit - seconds))
        return replace(context.state, budget=budget).with_bin(context.bin, bin_state)
    return replace(context.state, budget=replace(budget, credit=max(0.0, budget.credit - seconds)))


def _pods(context: TickContext) -> int:
    """Return the number of pods that gain from a probe."""
    return len(context.readings.pods(context.bin))


def _probe_seconds(context: TickContext) -> float:
    """Return the length of a probe: some steps of the slowest K."""
    exploration = context.policy.exploration
    slowest = max(context.posterior.step_seconds(k) for k in context.policy.candidates)
    wanted = min(exploration.slice_steps * slowest, exploration.longest_slice_seconds)
    return max(exploration.slice_seconds, wanted)


def _probe(context: TickContext, ks: Sequence[int], seconds: float) -> Probe:
    """Choose one pod of the bin, another one at each tick."""
    pods = context.readings.pods(context.bin)
    low, high = context.policy.limits(context.bin)
    return Probe(pods[context.state.ticks % len(pods)], low, high, tuple(Slice(k, seconds) for k in ks))
