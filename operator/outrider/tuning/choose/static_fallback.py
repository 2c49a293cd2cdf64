"""The static fallback: if tuning did not pay, the static schedule stays as long as the finding took."""

from __future__ import annotations

from dataclasses import replace

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Kind, Proposal
from outrider.tuning.state import Ledger
from outrider.tuning.tick_context import TickContext

_SEEN = 0.5
"""Minimum weight of the ledger to judge it."""


def pinned(view: TickContext) -> Proposal | None:
    """Hold, begin or end the static fallback; None if the tuned schedule is used."""
    state, policy, ledger = view.state, view.policy, view.state.ledger
    if (left := state.pinned_seconds(view.now)) > 0:
        return view.hold(
            DecisionReason.STATIC_FALLBACK,
            f"the static schedule stays for {left:.0f} s, because tuning did not pay",
        )
    everywhere = frozenset(view.beliefs)
    if state.pinned:
        sentence = view.say("the fallback to the static schedule expired; the tuned schedule is restored")
        unpinned = replace(state, pinned_until=None)
        ended = DecisionReason.STATIC_FALLBACK_ENDED
        return Proposal(Kind.EXPLOIT, ended, sentence, unpinned, explained=everywhere)
    if ledger.weight < _SEEN or ledger.gain >= -policy.safety.ledger_loss * ledger.weight:
        return None
    pinned_state = replace(state, ledger=Ledger(), pinned_until=view.now + policy.safety.ledger_seconds)
    sentence = view.say(
        f"the static schedule was {-100 * ledger.gain / ledger.weight:.0f} % better, so it is used"
    )
    return Proposal(
        Kind.ROLL_BACK, DecisionReason.STATIC_FALLBACK, sentence, pinned_state, explained=everywhere
    )
