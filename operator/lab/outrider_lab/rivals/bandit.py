"""The rule that knows nothing but goodput: each batch bin is a bandit of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.tuning.decision import Probe, Slice
from outrider.tuning.observe.window import Observation
from outrider.tuning.policy import Policy
from outrider_lab.engines.fleet import Launch
from outrider_lab.rivals.model_only import binned_table
from outrider_lab.rivals.tuners import Action, windows


@dataclass(frozen=True, slots=True)
class _Reading:
    pod: str
    bin: int
    k: int
    tokens: float
    seconds: float  # engine time


@dataclass(slots=True)
class _Arm:
    tokens: float = 0.0
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        return self.tokens / self.seconds if self.seconds > 0 else 0.0


@dataclass(slots=True)
class _Bin:
    arms: dict[int, _Arm]
    racing: list[int]
    k: int | None = None
    next_look: float = 0.0  # seconds
    turn: int = 0


class Bandit:
    """`bandit`: successive halving for 20 s in a new bin, then looks for 3 % of the time.

    Rounds of halving divide the time equally; the better half of the K continues. Looks take
    turns among the other K, 2 s each. Means are over all that was ever measured.
    """

    launch = Launch()
    HALVING_SECONDS = 20.0
    LOOK_SECONDS = 2.0
    SHARE = 0.03

    def __init__(self, law: Policy) -> None:
        self._law = law
        self._bins: dict[int, _Bin] = {}
        self._rounds = max(1, (len(law.candidates) - 1).bit_length())

    def begin(self) -> Action:
        """The hand table."""
        return Action(binned_table(self._law, {}))

    def tick(self, observations: Sequence[Observation], now: float) -> Action:
        """Add up, choose, and request the next measurements."""
        readings = self._readings(observations)
        for reading in readings:
            arm = self._bin(reading.bin).arms.get(reading.k)
            if arm is not None:
                arm.tokens += reading.tokens
                arm.seconds += reading.seconds
        probe = self._next(readings, now) if readings else None
        chosen = {index: b.k for index, b in self._bins.items() if b.k is not None}
        return Action(binned_table(self._law, chosen), probe)

    def _readings(self, observations: Sequence[Observation]) -> list[_Reading]:
        cells = [(w.pod, c) for w in windows(observations) for c in w.cells if c.step_seconds > 0]
        return [
            _Reading(pod, self._law.bin_of(c.low), c.num_speculative_tokens, c.emitted_tokens, c.step_seconds)
            for pod, c in cells
        ]

    def _next(self, readings: Sequence[_Reading], now: float) -> Probe | None:
        longest = max(readings, key=lambda reading: reading.seconds)
        slices = self._ask(self._bin(longest.bin), now)
        if not slices:
            return None
        low, high = self._law.limits(longest.bin)
        return Probe(longest.pod, low, high, tuple(Slice(k, seconds) for k, seconds in slices))

    def _bin(self, index: int) -> _Bin:
        ks = list(self._law.candidates)
        return self._bins.setdefault(index, _Bin({k: _Arm() for k in ks}, ks))

    def _ask(self, state: _Bin, now: float) -> list[tuple[int, float]]:
        state.racing = self._halved(state)
        measured = [k for k, arm in state.arms.items() if arm.seconds > 0]
        if measured:
            state.k = max(measured, key=lambda k: (state.arms[k].mean, -k))
        if len(state.racing) > 1:
            each = self.HALVING_SECONDS / self._rounds / len(state.racing)
            return [(k, each) for k in state.racing]
        others = [k for k in self._law.candidates if k != state.k]
        if now < state.next_look or not others:
            return []
        state.next_look = now + self.LOOK_SECONDS / self.SHARE
        state.turn += 1
        return [(others[state.turn % len(others)], self.LOOK_SECONDS)]

    def _halved(self, state: _Bin) -> list[int]:
        """Return the better half, once every K in the race has its part of this round."""
        if len(state.racing) < 2:
            return state.racing
        needed, size = 0.0, len(state.arms)
        while size >= len(state.racing):
            needed += self.HALVING_SECONDS / self._rounds / size
            size = (size + 1) // 2
        if any(state.arms[k].seconds < 0.9 * needed for k in state.racing):
            return state.racing
        ranked = sorted(state.racing, key=lambda k: -state.arms[k].mean)
        return sorted(ranked[: (len(ranked) + 1) // 2])
