"""The rule that knows nothing but goodput: each batch bin is a bandit of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.api.schedule import Schedule
from outrider.tuning.decision import Probe, Slice
from outrider.tuning.observe.window import Observation, Window
from outrider.tuning.policy import Policy
from outrider_lab.rivals.baselines import windows
from outrider_lab.rivals.model_only import binned_table
from outrider_lab.rivals.tuners import Action


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


@dataclass(slots=True)
class _Trial:
    """A K in the schedule of a bin, if engines run no probes."""

    bin: int
    slices: list[tuple[int, float]] = field(default_factory=list)  # K, engine seconds left


class Bandit:
    """`bandit`: successive halving for 20 s in a new bin, then looks for 3 % of the time.

    Rounds of halving divide the time equally; the better half of the K continues. Looks take
    turns among the other K, 2 s each. Means are over all that was ever measured. Without exact
    cells the measurements use the schedule, for a tick or more each.
    """

    HALVING_SECONDS = 20.0
    LOOK_SECONDS = 2.0
    SHARE = 0.03

    def __init__(self, law: Policy, *, stock: bool = False) -> None:
        self._law, self._stock = law, stock
        self._bins: dict[int, _Bin] = {}
        self._rounds = max(1, (len(law.candidates) - 1).bit_length())
        self._trial: _Trial | None = None
        self._schedule = binned_table(law, {})

    def begin(self) -> Action:
        """The hand table."""
        return Action(self._schedule)

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
        if self._trial is not None:
            chosen[self._trial.bin] = self._trial.slices[0][0]
        self._schedule = binned_table(self._law, chosen)
        return Action(self._schedule, probe, on_trial=self._trial is not None)

    def _readings(self, observations: Sequence[Observation]) -> list[_Reading]:
        seen = windows(observations)
        if not self._stock:
            cells = [(w.pod, c) for w in seen for c in w.cells if c.step_seconds > 0]
            return [
                _Reading(
                    pod, self._law.bin_of(c.low), c.num_speculative_tokens, c.emitted_tokens, c.step_seconds
                )
                for pod, c in cells
            ]
        return [_whole(self._law, self._schedule, window) for window in seen]

    def _next(self, readings: Sequence[_Reading], now: float) -> Probe | None:
        longest = max(readings, key=lambda reading: reading.seconds)
        if self._stock and self._trial is not None:
            self._spend(readings)
        if self._trial is not None:
            return None
        slices = self._ask(self._bin(longest.bin), now)
        if not slices:
            return None
        if self._stock:
            self._trial = _Trial(longest.bin, slices)
            return None
        low, high = self._law.limits(longest.bin)
        return Probe(longest.pod, low, high, tuple(Slice(k, seconds) for k, seconds in slices))

    def _spend(self, readings: Sequence[_Reading]) -> None:
        """The trial's time goes by; it ends when the load leaves its bin."""
        trial = self._trial
        if trial is None:
            return
        k, left = trial.slices[0]
        spent = sum(r.seconds for r in readings if (r.bin, r.k) == (trial.bin, k))
        trial.slices[0] = (k, left - spent)
        if left <= spent:
            trial.slices.pop(0)
        if not trial.slices or spent == 0:
            self._trial = None

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


def _whole(law: Policy, schedule: Schedule, window: Window) -> _Reading:
    """A stock window counts for the bin of its mean batch, and for the K that the schedule has there."""
    size = window.batch_size or 1.0
    return _Reading(
        window.pod, law.bin_of(size), schedule.k_at_mean(size), window.tokens, window.engine_seconds
    )
