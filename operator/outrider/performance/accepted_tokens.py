"""Tokens that one draft gains."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True)
class Gain:
    """Accepted tokens of one draft."""

    mean: float
    deviation: float  # standard deviation of one draft
    shares: tuple[float, ...]  # position j accepted, over all drafts


def gain_of(probabilities: tuple[float, ...], k: int) -> Gain:
    """Mean and deviation of the number of accepted tokens, which stops at the first refusal.

    Positions beyond the last one that is known are accepted as often as that one.
    """
    shares: list[float] = []
    share = 1.0
    for position in range(k):
        share *= probabilities[min(position, len(probabilities) - 1)]
        shares.append(share)
    mean = sum(shares)
    # E[X^2] of a count with P(X >= j) = shares[j - 1] is the sum of (2 j - 1) shares[j - 1].
    square = sum((2 * j + 1) * value for j, value in enumerate(shares))
    return Gain(mean, sqrt(max(0.0, square - mean * mean)), tuple(shares))
