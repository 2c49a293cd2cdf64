"""Tokens that a draft gains, by class of request and K."""

from __future__ import annotations

from outrider.performance.accepted_tokens import Gain, gain_of
from outrider_lab.traffic.requests import DIFFICULTIES, Trace

DRIFT_SECONDS = 10.0
"""Acceptance that drifts is constant for this long."""


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
