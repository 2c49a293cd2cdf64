"""Test for a collapse of the acceptance rate against its history."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from sys import float_info

from outrider.tuning.observe.readings import Readings

_RARE = 10.83
"""Quantile of chi-square with one degree of freedom, exceeded once in a thousand."""


@dataclass(frozen=True, slots=True)
class Drafts:
    """Number of drafts, and of those whose first token was accepted. Discounted counts are not integers."""

    accepted: float
    drafted: float

    @property
    def rate(self) -> float:
        """Ratio of accepted drafts."""
        return self.accepted / self.drafted

    def weighted(self, weight: float) -> Drafts:
        """The same ratio from another number of drafts."""
        return Drafts(weight * self.accepted, weight * self.drafted)


def first_position(readings: Readings) -> Drafts:
    """Accepted and verified tokens of the first position. A trimmed draft says nothing about the drafter."""
    rows = [row for row in readings.rows if row.verified > 0]
    return Drafts(sum(row.accepted[0] for row in rows if row.accepted), sum(row.verified for row in rows))


def has_collapsed(newest: Drafts, history: Drafts, *, ratio: float) -> bool:
    """Return True if the rate is below `ratio` of the history's, with a chance of at most one in a thousand.

    All of the last few drafts may be rejected by chance, so small numbers do not suffice.
    """
    if history.drafted <= 0 or newest.rate >= ratio * history.rate:
        return False
    together = Drafts(newest.accepted + history.accepted, newest.drafted + history.drafted).rate
    # The log of the likelihood ratio, times two, is chi-square distributed (Wilks 1938).
    return 2 * (_surprise(newest, together) + _surprise(history, together)) > _RARE


def _surprise(drafts: Drafts, expected: float) -> float:
    """Return the log likelihood ratio of the drafts' own rate to the expected one."""
    rejected = drafts.drafted - drafts.accepted
    return _part(drafts.accepted, drafts.rate, expected) + _part(rejected, 1 - drafts.rate, 1 - expected)


def _part(count: float, own: float, expected: float) -> float:
    return 0.0 if count <= 0 else count * log(own / max(expected, float_info.epsilon))
