"""Turns: of several K with equal estimates, the least measured one runs for a while.

Probes are short, so they hardly distinguish values of K that are nearly equal. Running such a K in the
schedule costs nothing, so it runs as long as any chosen K.

Source: the online knowledge gradient of Ryzhov, Powell and Frazier 2012, which adds the worth of the
information from a choice to its gain.
"""

from __future__ import annotations

from outrider.api.reasons import DecisionReason
from outrider.tuning.choose import choice, guardrails
from outrider.tuning.decision import Kind, Proposal
from outrider.tuning.explore import probe_plan, probing
from outrider.tuning.tick_context import TickContext

_SHARE_OF_CHANGES = 0.5
"""Ratio of the changes per hour for turns; the rest is reserved for a K that proves better."""


def turn(view: TickContext) -> Proposal | None:
    """Return another K for a settled bin; None if the present one is worth as much."""
    bin_state, belief = view.bin_state, view.belief
    room = _SHARE_OF_CHANGES * view.policy.choice.switches_per_hour
    if bin_state.settled_at is None or bin_state.recent_switches(view.now) + 1 > room:
        return None
    k = _next(view)
    if k == bin_state.k or guardrails.first_veto(guardrails.STEP, guardrails.Step(k, view)) is not None:
        return None
    state = view.state.with_bin(view.bin, bin_state.changed_to(k, view.now, settled=True))
    sentence = (
        f"K {bin_state.k} -> {k}, equal within the error, {view.rate(k)} vs {view.rate(bin_state.k)}, "
        f"and less measured (± {100 * belief.gain(k, bin_state.k)[1]:.0f} %)"
    )
    return Proposal(
        Kind.EXPLORE,
        DecisionReason.MOST_INFORMATIVE,
        view.say(sentence),
        state,
        explained=frozenset({view.bin}),
    )


def _next(view: TickContext) -> int:
    """Return the K within `min_gain` of the best whose next turn has the maximum worth."""
    policy, belief, now = view.policy, view.belief, view.bin_state.k
    allowed = choice.usable(belief, policy)
    measured = choice.seen(view.state) | belief.mapped
    best = belief.best(allowed)
    equals = {k for k in allowed if k in measured and belief.gain(best, k)[0] <= policy.choice.min_gain}
    if now not in equals or policy.exploration.probe_share <= 0:
        return now
    worth = probe_plan.worth_of_measuring(belief, allowed, probing.terms(view, policy.choice.dwell_seconds))
    k = max(equals, key=lambda k: (worth[k], -k))
    return k if worth[k] > worth[now] + policy.choice.min_gain else now
