"""Tokens that a draft gains, by class of request and K."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from outrider.simulate.traffic.requests import DIFFICULTIES, Trace

DRIFT_SECONDS = 10.0
"""Acceptance that drifts is constant for this long."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Accepted tokens of one draft."""

    mean: float
    deviation: float  # standard deviation of one draft
    shares: tuple[float, ...]  # position j accepted, over all drafts


class Acceptances:
    """Looks up `Gain`; constant over `DRIFT_SECONDS`."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._known: dict[tuple[int, int, int], Gain] = {}

    @property
    def kinds(self) -> int:
        """Number of classes of requests."""
        return len(self._trace.phases) * len(DIFFICULTIES)

    def rates(self, k: int, at: float) -> list[float]:
        """Expected tokens per request and step, by class."""
        return [1.0 + self.gain(kind, k, at).mean for kind in range(self.kinds)]

    def gain(self, kind: int, k: int, at: float) -> Gain:
        """Return the gain of one draft of K tokens."""
        phase, difficulty = divmod(kind, len(DIFFICULTIES))
        drifts = self._trace.phases[phase].drift_to != 1.0
        epoch = int(at / DRIFT_SECONDS) if drifts else 0
        key = (kind, k, epoch)
        found = self._known.get(key)
        if found is None:
            scale = self._trace.drift(phase, epoch * DRIFT_SECONDS) if drifts else 1.0
            probabilities = self._trace.phases[phase].probability(difficulty, scale)
            found = self._known[key] = gain_of(probabilities, k)
        return found


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
