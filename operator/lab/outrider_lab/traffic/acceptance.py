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
        self._chances: dict[tuple[int, int], tuple[float, ...]] = {}

    @property
    def kinds(self) -> int:
        """Number of classes of requests."""
        return len(self._trace.phases) * len(DIFFICULTIES)

    def rates(self, k: int, at: float) -> list[float]:
        """Expected tokens per request and step, by class."""
        return [1.0 + self.gain(kind, k, at).mean for kind in range(self.kinds)]

    def gain(self, kind: int, k: int, at: float) -> Gain:
        """Return the gain of one draft of K tokens."""
        key = (kind, k, self._epoch(kind, at))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = gain_of(self.chances(kind, at), k)
        return found

    def chances(self, kind: int, at: float) -> tuple[float, ...]:
        """Acceptance of each position, given that all before it were; the same object in an epoch."""
        phase, difficulty = divmod(kind, len(DIFFICULTIES))
        epoch = self._epoch(kind, at)
        found = self._chances.get((kind, epoch))
        if found is None:
            drifts = self._trace.phases[phase].drift_to != 1.0
            scale = self._trace.drift(phase, epoch * DRIFT_SECONDS) if drifts else 1.0
            found = self._chances[kind, epoch] = self._trace.phases[phase].probability(difficulty, scale)
        return found

    def _epoch(self, kind: int, at: float) -> int:
        drifts = self._trace.phases[kind // len(DIFFICULTIES)].drift_to != 1.0
        return int(at / DRIFT_SECONDS) if drifts else 0
