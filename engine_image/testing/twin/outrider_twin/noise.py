"""Noise on step times: from step to step, slow, and from pod to pod. All of it is seeded."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, exp, floor, pi

from outrider_twin.draws import key_of, normal

MIN_FACTOR = 0.2
"""Minimum ratio of a step time to its table."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Factors on step times. Small noise is 1 on average.

    white: relative standard deviation of one step, independent of all others.
    drift: relative standard deviation of a slow change over drift_seconds.
    pods: relative standard deviation between pods; constant for a pod's name.
    pod: the name.
    """

    white: float = 0.0
    drift: float = 0.0
    drift_seconds: float = 60.0
    pods: float = 0.0
    seed: int = 0
    pod: str = ""

    def factor(self, step: int, elapsed: float) -> float:
        """Factor of one step. elapsed: seconds since the engine started."""
        slow = self._pod() * self._drift(elapsed)
        white = self.white * normal(self._key("white"), step) if self.white else 0.0
        return max(MIN_FACTOR, slow * (1.0 + white))

    def _pod(self) -> float:
        return exp(self.pods * normal(self._key("pod"), 0)) if self.pods else 1.0

    def _drift(self, elapsed: float) -> float:
        """Slow factor: knots at equal distances with half a cosine wave between two."""
        if not self.drift:
            return 1.0
        key, place = self._key("drift"), elapsed / self.drift_seconds
        knot = floor(place)
        share = 0.5 - 0.5 * cos(pi * (place - knot))
        level = (1.0 - share) * normal(key, knot) + share * normal(key, knot + 1)
        return exp(self.drift * level)

    def _key(self, part: str) -> int:
        return key_of(part, self.seed, self.pod)
