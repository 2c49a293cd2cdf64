"""Where tuning does not pay: the static table stays for as long as it took to find out."""

from __future__ import annotations

from dataclasses import replace

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Kind, Wish
from outrider.tuning.state import Ledger
from outrider.tuning.view import View

_SEEN = 0.5
"""Weight of the ledger from which on it is judged."""


def pinned(view: View) -> Wish | None:
    """Hold the static table, begin to, or end it; None where what was chosen rules."""
    state, policy, ledger = view.state, view.policy, view.state.ledger
    if (left := state.pinned_seconds(view.now)) > 0:
        return view.hold(DecisionReason.STATIC_FALLBACK, f"the static table stays for {left:.0f} s")
    everywhere = frozenset(view.beliefs)
    if state.pinned:
        sentence = view.say("the fallback to the static schedule expired; the tuned schedule is restored")
        unpinned = replace(state, pinned_until=None)
        ended = DecisionReason.STATIC_FALLBACK_ENDED
        return Wish(Kind.EXPLOIT, ended, sentence, unpinned, explained=everywhere)
    if ledger.weight < _SEEN or ledger.gain >= -policy.safety.ledger_loss * ledger.weight:
        return None
    pinned_state = replace(
        state, trial=None, ledger=Ledger(), pinned_until=view.now + policy.safety.ledger_seconds
    )
    sentence = view.say(f"the static table was {-100 * ledger.gain / ledger.weight:.0f} % better, it stays")
    return Wish(Kind.ROLL_BACK, DecisionReason.STATIC_FALLBACK, sentence, pinned_state, explained=everywhere)
