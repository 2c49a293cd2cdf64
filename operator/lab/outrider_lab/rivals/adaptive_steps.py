"""`sglang`: the adaptive mode of SGLang, with the parameters of its source.

Source: sgl-project/sglang, commit 015c872, python/sglang/srt/speculative/adaptive_spec_params.py. Batches
from 1, 8, 32 and 64 requests have lists of steps of their own, each with its own average.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from outrider.tuning.policy import Policy
from outrider_lab.engines.step_rules import Verified
from outrider_lab.rivals.tuners import at_most
from outrider_protocol.schedule import Row, Schedule

STEPS = {1: (1, 3, 5, 7), 8: (0, 1, 3), 32: (0, 1), 64: (0,)}
"""By the smallest batch of a slot."""
DOWN_HYSTERESIS = {1: -0.25, 8: 0.0, 32: 0.0, 64: 0.0}
ALPHA = 0.2
"""Weight of each batch in the average."""
UPDATE_BATCHES, WARMUP_BATCHES = 5, 10
"""K is judged at every fifth batch, the first ten left out."""
BEGIN = 3


class Slot:
    """The steps of batches of one size."""

    def __init__(self, candidates: Sequence[int], down: float = -0.25) -> None:
        """K is that to begin with, else the middle one. down: hysteresis, in tokens."""
        self._ks, self._down = sorted(set(candidates)), down
        middle = self._ks[len(self._ks) // 2]
        self.k = BEGIN if BEGIN in self._ks else middle
        self._average = float(self.k - 1)
        self._batches = 0.0

    def after(self, batches: float, accepted: float | None) -> None:
        """So many batches more with the mean number of accepted tokens per draft; None: nothing drafted."""
        if self.k > 0 and accepted is not None:
            left = (1 - ALPHA) ** batches
            self._average = left * self._average + (1 - left) * accepted
        judged = self._turns()
        self._batches += batches
        if self._turns() > judged:
            self.k = self._judged()

    def _turns(self) -> int:
        """How often K was judged."""
        return max(0, int((self._batches - WARMUP_BATCHES) // UPDATE_BATCHES))

    def _judged(self) -> int:
        place = self._ks.index(self.k)
        if self.k == 0:  # a look at the smallest one that drafts
            k = self._ks[min(place + 1, len(self._ks) - 1)]
            if k > 0 and self._average < 0:
                self._average = float(k - 1)
            return k
        lowest = place
        while lowest > 0 and self._average <= self._falls_at(self._ks[lowest - 1]):
            lowest -= 1
        if lowest < place:
            return self._ks[lowest]
        while place < len(self._ks) - 1 and self._average > self._ks[place] - 0.5:
            place += 1
        return self._ks[place]

    def _falls_at(self, below: int) -> float:
        """The average at which a K gives way to the one below; drafting ends before nothing is accepted."""
        return (0.5 if below == 0 else below - 0.5) + self._down


class AdaptiveSteps:
    """Every slot follows the batches of its own size."""

    def __init__(self, law: Policy) -> None:
        self._slots = {
            low: Slot([at_most(k, law.candidates) for k in ks], DOWN_HYSTERESIS[low])
            for low, ks in STEPS.items()
        }

    def choose(self, batch: int) -> int:
        """See `StepRule`."""
        return self._slot(batch).k

    def verified(self, done: Verified) -> None:
        """Steps belong to the slot of their batch."""
        self._slot(done.batch).after(done.steps, sum(done.rates) if done.k > 0 else None)

    def schedule(self) -> Schedule:
        """See `StepRule`."""
        uppers = [after - 1 for _, after in pairwise(STEPS)]
        ks = [slot.k for slot in self._slots.values()]
        return Schedule(tuple(map(Row, (*uppers, None), ks))).merged()

    def _slot(self, batch: float) -> Slot:
        return self._slots[max(low for low in STEPS if low <= max(1.0, batch))]
