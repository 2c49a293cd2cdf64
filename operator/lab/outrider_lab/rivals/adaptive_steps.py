"""`sglang`: the adaptive mode of SGLang, with the parameters of its source.

Source: sgl-project/sglang, python/sglang/srt/speculative/adaptive_spec_params.py, read in 2026. Batches
of 1, 8, 32 and 64 requests or more have lists of steps of their own, each with its own average.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider_lab.rivals.tuners import ScheduleRule, at_most
from outrider_protocol.schedule import Row, Schedule

STEPS = {1: (1, 3, 7), 8: (0, 1, 3), 32: (0, 1), 64: (0,)}
"""By the smallest batch of a slot."""
ALPHA = 0.2
"""Weight of each batch in the average."""
UPDATE_BATCHES, WARMUP_BATCHES = 5.0, 10.0
"""K is judged at every fifth batch, the first ten left out."""
DOWN_HYSTERESIS = -0.25
BEGIN = 3


class Slot:
    """The steps of batches of one size."""

    def __init__(self, candidates: Sequence[int]) -> None:
        """K is that to begin with, else the middle one."""
        self._ks = sorted(set(candidates))
        middle = self._ks[len(self._ks) // 2]
        self.k = BEGIN if BEGIN in self._ks else middle
        self._average = float(self.k - 1)
        self._batches = 0.0

    def after(self, batches: float, accepted: float | None) -> None:
        """So many batches more with the mean number of accepted tokens per draft; None: nothing drafted."""
        if self.k > 0 and accepted is not None:
            left = (1 - ALPHA) ** batches
            self._average = left * self._average + (1 - left) * accepted
        self._batches += batches
        if self._batches >= WARMUP_BATCHES + UPDATE_BATCHES:
            self.k = self._judged()

    def _judged(self) -> int:
        place = self._ks.index(self.k)
        if self.k == 0:  # a look at the smallest one that drafts
            k = self._ks[min(place + 1, len(self._ks) - 1)]
            if self._average < 0:
                self._average = float(k - 1)
            return k
        lowest = place
        while lowest > 0 and self._average <= _falls_at(self._ks[lowest - 1]):
            lowest -= 1
        if lowest < place:
            return self._ks[lowest]
        while place < len(self._ks) - 1 and self._average > self._ks[place] - 0.5:
            place += 1
        return self._ks[place]


def _falls_at(below: int) -> float:
    """The average at which a K gives way to the one below. No accepted token at all is not asked for."""
    return (0.5 if below == 0 else below - 0.5) + DOWN_HYSTERESIS


class AdaptiveSteps(ScheduleRule):
    """Every slot follows the batches of its own size."""

    def __init__(self, law: Policy) -> None:
        self._slots = {low: Slot([at_most(k, law.candidates) for k in ks]) for low, ks in STEPS.items()}
        self.schedule = self._composed()

    def follow(self, seen: Sequence[Window], now: float) -> None:  # noqa: ARG002
        """Each window belongs to the slot of its mean batch."""
        for window in seen:
            low = max(low for low in STEPS if low <= max(1.0, window.batch_size or 1.0))
            accepted = window.accepted_tokens / window.drafts if window.drafts > 0 else None
            self._slots[low].after(window.engine_steps, accepted)
        self.schedule = self._composed()

    def _composed(self) -> Schedule:
        uppers = [after - 1 for _, after in pairwise(STEPS)]
        ks = [slot.k for slot in self._slots.values()]
        return Schedule(tuple(map(Row, (*uppers, None), ks))).merged()
