"""The change of K in the current bin, and the fallback to the static schedule if tuning does not pay."""

from __future__ import annotations

from dataclasses import replace
from math import expm1

from outrider.api.reasons import DecisionReason
from outrider.tuning import messages
from outrider.tuning.choose import choice, guardrails
from outrider.tuning.decision import Kind, Proposal
from outrider.tuning.estimate.collapse import first_position
from outrider.tuning.state import StaticFallback
from outrider.tuning.tick_context import TickContext

_MIN_LEDGER_WEIGHT = 0.5
"""Minimum weight of the ledger to judge it."""


def fall_back(context: TickContext) -> TickContext | Proposal:
    """Use the static schedule for a while if tuning did not pay, then restore the tuned one."""
    state, safety, fallback = context.state, context.policy.safety, context.state.fallback
    given = context.policy.allowed(state.static.k_at_mean(context.posterior.batch_size))
    breaks = given not in choice.usable(context.posterior, context.policy)
    if (left := fallback.seconds_left(context.now)) > 0 and not breaks:
        return context.hold(
            DecisionReason.STATIC_FALLBACK,
            f"the static schedule stays for {left:.0f} s, because tuning did not pay",
        )
    ledger, everywhere = fallback.ledger, frozenset(context.posteriors)
    if fallback.active:
        why = "the fallback to the static schedule expired"
        if breaks:
            why = "the static schedule breaks the latency limit"
        sentence = f"{why}; the tuned schedule is restored"
        kind, reason = Kind.EXPLOIT, DecisionReason.STATIC_FALLBACK_ENDED
        fallback = replace(fallback, until=None)
    elif ledger.weight >= _MIN_LEDGER_WEIGHT and ledger.gain < -safety.ledger_loss * ledger.weight:
        better = -100 * ledger.gain / ledger.weight
        sentence = f"the static schedule was {better:.0f} % better, so it is used"
        kind, reason = Kind.ROLL_BACK, DecisionReason.STATIC_FALLBACK
        fallback = StaticFallback(until=context.now + safety.ledger_seconds)
    else:
        return context
    state = replace(state, fallback=fallback)
    return Proposal(kind, reason, context.say(sentence), state, explained=everywhere)


def choose(context: TickContext) -> TickContext:
    """Choose K of the current bin."""
    chosen = change(context)
    return replace(context, chosen=chosen, state=chosen.state)


def change(context: TickContext) -> Proposal:
    """End drafts that fail, or return to the K before if the new one is slower, or change to a better K."""
    bin_state, posterior, policy = context.bin_state, context.posterior, context.policy
    if (smallest := choice.without_failing_drafts(context)) is not None:
        return _end_drafts(context, smallest)
    back = choice.reverted(bin_state, posterior, policy, context.now)
    k = back
    if k is None:
        k = choice.challenger(bin_state, posterior, choice.measured_ks(context.state), policy)
    if k is None:
        return context.hold_settled()
    step = guardrails.Step(k, context, revert=back is not None)
    if (veto := guardrails.first_veto(guardrails.STEP, step)) is not None:
        return context.hold(veto.reason, veto.sentence)
    changed = bin_state.changed_to(k, context.now, settled=bin_state.settled_at is not None)
    sentence = context.say(messages.change(posterior, bin_state.k, k, policy))
    if back is not None:
        state = context.state.with_bin(context.bin, replace(changed, replaced=None))
        return Proposal(Kind.ROLL_BACK, DecisionReason.WORSE_THAN_BEFORE, sentence, state)
    state = context.state.with_bin(context.bin, changed)
    gain = expm1(posterior.goodput_gain(k, bin_state.k)[0])
    return Proposal(Kind.EXPLOIT, messages.reason(posterior, bin_state.k, k, policy), sentence, state, gain)


def _end_drafts(context: TickContext, k: int) -> Proposal:
    """Neither a recent change nor the number of changes delays this."""
    old, rate = context.bin_state.k, first_position(context.readings).rate
    ended = context.bin_state.changed_to(k, context.now, settled=context.bin_state.settled_at is not None)
    sentence = (
        f"K {old} -> {k}: {100 * rate:.0f} % of first draft tokens are accepted, far below their history; "
        "check the engine's outputs"
    )
    state = context.state.with_bin(context.bin, replace(ended, replaced=None))
    return Proposal(Kind.EXPLOIT, DecisionReason.DRAFTS_FAIL, context.say(sentence), state)
