"""Whether drafts fail far more often than they ever did."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from sys import float_info

_RARE = 10.83
"""Chi-square with one degree of freedom is larger once in a thousand."""


@dataclass(frozen=True, slots=True)
class Drafts:
    """Drafts whose first token was accepted, of how many. Counts that fade are no whole numbers."""

    accepted: float
    drafted: float

    @property
    def rate(self) -> float:
        """Share that was accepted."""
        return self.accepted / self.drafted


def has_collapsed(newest: Drafts, history: Drafts, *, ratio: float) -> bool:
    """Below `ratio` of the history's rate, and by more than chance would have it once in a thousand times.

    The last few drafts before a silence may all be rejected; that says nothing of a drafter.
    """
    if history.drafted <= 0 or newest.rate >= ratio * history.rate:
        return False
    together = Drafts(newest.accepted + history.accepted, newest.drafted + history.drafted).rate
    # The log of the likelihood ratio, times two, is chi-square distributed (Wilks 1938).
    return 2 * (_surprise(newest, together) + _surprise(history, together)) > _RARE


def _surprise(drafts: Drafts, expected: float) -> float:
    """Log of how much likelier drafts are at a rate of their own than at the expected one."""
    rejected = drafts.drafted - drafts.accepted
    return _part(drafts.accepted, drafts.rate, expected) + _part(rejected, 1 - drafts.rate, 1 - expected)


def _part(count: float, own: float, expected: float) -> float:
    return 0.0 if count <= 0 else count * log(own / max(expected, float_info.epsilon))
