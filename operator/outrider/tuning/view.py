"""The batch bin that the engines are in, what is known about it, and the words for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from outrider.tuning.attribution import Readings
from outrider.tuning.estimate import Score
from outrider.tuning.policy import Policy
from outrider.tuning.state import BinState, Trial, TunerState


@dataclass(frozen=True, slots=True)
class View:
    """One tick, seen from the bin in which the engines spent most of their time."""

    state: TunerState
    policy: Policy
    now: float  # unix seconds
    bin: int
    batch_size: float  # mean of the bin's windows
    scores: Mapping[int, Score]  # by K, at the batch size of now

    @classmethod
    def of(cls, state: TunerState, readings: Readings, policy: Policy, now: float) -> View | None:
        """None without measurements."""
        if readings.current is None:
            return None
        index = readings.current[0]
        batch_size = readings.measured[readings.current].batch_size
        return cls(state, policy, now, index, batch_size, state.bins[index].scores(batch_size, now, policy))

    @property
    def bin_state(self) -> BinState:
        """The state of the bin."""
        return self.state.bins[self.bin]

    @property
    def trial(self) -> Trial | None:
        """The trial under way in this bin."""
        trial = self.state.trial
        return trial if trial is not None and trial.bin == self.bin else None

    def without_trial(self) -> View:
        """The same after the trial under way, wherever it is."""
        return replace(self, state=self.state.without_trial(self.now))

    def say(self, words: str) -> str:
        """A sentence about this bin."""
        return f"batch {self.policy.label(self.bin)}: {words}"

    def rate(self, k: int) -> str:
        """For instance ``566 tok/s``."""
        return f"{self.scores[k].mean:.0f} tok/s" if k in self.scores else "no measurement"

    def comparison(self, old: int, new: int) -> str:
        """For instance ``batch 7-12: K 3 -> 1, 566 vs 506 tok/s (+12 %)``."""
        if old not in self.scores:
            return self.say(f"K {old} -> {new}, {self.rate(new)}")
        gain = 100 * self.scores[new].gain_over(self.scores[old])
        rates = f"{self.scores[new].mean:.0f} vs {self.scores[old].mean:.0f} tok/s"
        return self.say(f"K {old} -> {new}, {rates} ({gain:+.0f} %)")
