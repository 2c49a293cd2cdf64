"""How a step's time differs from its table: from step to step, slowly, and from pod to pod. All seeded."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, exp, floor, pi

from outrider_twin.draws import key_of, normal

LEAST_FACTOR = 0.2
"""No step is faster than this share of its table, whatever is drawn."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Factors on step times; each part is 1 on average, as nearly as makes no difference when small.

    white: relative standard deviation of one step, independent of all others.
    drift: relative standard deviation of a slow change; drift_seconds: after so long it is another.
    pods: relative standard deviation between pods; each keeps its own for as long as it has its name.
    pod: the name.
    """

    white: float = 0.0
    drift: float = 0.0
    drift_seconds: float = 60.0
    pods: float = 0.0
    seed: int = 0
    pod: str = ""

    def factor(self, step: int, elapsed: float) -> float:
        """Of one step. elapsed: seconds since the engine started."""
        slow = self._pod() * self._drift(elapsed)
        white = self.white * normal(self._key("white"), step) if self.white else 0.0
        return max(LEAST_FACTOR, slow * (1.0 + white))

    def _pod(self) -> float:
        return exp(self.pods * normal(self._key("pod"), 0)) if self.pods else 1.0

    def _drift(self, elapsed: float) -> float:
        """Knots at equal distances, and half a wave of a cosine from each to the next."""
        if not self.drift:
            return 1.0
        key, place = self._key("drift"), elapsed / self.drift_seconds
        knot = floor(place)
        share = 0.5 - 0.5 * cos(pi * (place - knot))
        level = (1.0 - share) * normal(key, knot) + share * normal(key, knot + 1)
        return exp(self.drift * level)

    def _key(self, part: str) -> int:
        return key_of(part, self.seed, self.pod)
