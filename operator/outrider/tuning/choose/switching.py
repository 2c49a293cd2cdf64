"""The change of K in the present bin: a significantly better K, if the guardrails allow it."""

from __future__ import annotations

from dataclasses import replace
from math import expm1

from outrider.api.reasons import DecisionReason
from outrider.tuning import messages
from outrider.tuning.choose import choice, guardrails
from outrider.tuning.decision import Kind, Proposal
from outrider.tuning.tick_context import TickContext


def change(view: TickContext) -> Proposal:
    """Return to the K before if the new one is slower; else change to a better K; else hold."""
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
    sentence = view.say(messages.change(belief, bin_state.k, k, view.policy))
    if back is not None:
        return Proposal(Kind.ROLL_BACK, DecisionReason.WORSE_THAN_BEFORE, sentence, state)
    gain = expm1(belief.gain(k, bin_state.k)[0])
    return Proposal(Kind.EXPLOIT, messages.reason(belief, bin_state.k, k, view.policy), sentence, state, gain)
