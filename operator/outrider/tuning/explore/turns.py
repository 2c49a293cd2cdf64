"""Turns: of K that are equal as far as is known, the one that is less known takes the table for a while.

Slices are short, so they hardly tell apart what is nearly as good; and to run it costs nothing. So it runs as
long as a K in force would.
Source: the online knowledge gradient of Ryzhov, Powell and Frazier 2012, which adds to what a choice earns
what running it teaches.
"""

from __future__ import annotations

from outrider.api.reasons import DecisionReason
from outrider.tuning.choose import choice, guardrails
from outrider.tuning.decision import Kind, Wish
from outrider.tuning.explore import slices, trying
from outrider.tuning.view import View

_SHARE_OF_CHANGES = 0.5
"""Of the changes per hour that a settled bin may make; the rest is kept for a K that proves better."""


def turn(view: View) -> Wish | None:
    """Another K for a settled bin; None where the one in force is as well worth running."""
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
    return Wish(
        Kind.EXPLORE,
        DecisionReason.MOST_INFORMATIVE,
        view.say(sentence),
        state,
        explained=frozenset({view.bin}),
    )


def _next(view: View) -> int:
    """Of the K within `min_gain` of the best, the one whose next turn is worth most."""
    policy, belief, now = view.policy, view.belief, view.bin_state.k
    allowed = choice.usable(belief, policy)
    measured = choice.seen(view.state) | belief.mapped
    best = belief.best(allowed)
    equals = {k for k in allowed if k in measured and belief.gain(best, k)[0] <= policy.choice.min_gain}
    if now not in equals or policy.exploration.probe_share <= 0:
        return now
    worth = slices.worth_of_measuring(belief, allowed, trying.terms(view, policy.choice.dwell_seconds))
    k = max(equals, key=lambda k: (worth[k], -k))
    return k if worth[k] > worth[now] + policy.choice.min_gain else now
