"""`sglang-throughput`: SGLang's adaptive mode with the strategy `throughput_aware`, by its source's defaults.

Every fifth step it takes the K with the most expected tokens per measured millisecond. It leaves its K only
for one that promises a tenth more. Its source refuses K=0.
Source: sgl-project/sglang, python/sglang/srt/speculative, throughput_aware_controller.py (commit b682836),
throughput_aware_spec_params.py (commit 2357074), adaptive_step_router.py (commit a12239f).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence

from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.policy import Policy
from outrider_lab.engines.step_rules import Verified
from outrider_lab.rivals.tuners import at_most
from outrider_protocol.schedule import Schedule

STEPS = (1, 3, 5, 7)
"""Draft lengths for every batch size."""
WINDOW, UPDATE_BATCHES = 20, 5
HYSTERESIS = 0.1
BEGIN = 3


class ThroughputAware:
    """One K for all batch sizes, scored for the batch at hand.

    costs: milliseconds of a step by batch size and K, measured before the engine serves.
    """

    def __init__(self, law: Policy, costs: Mapping[tuple[int, int], float]) -> None:
        self._ks = sorted({at_most(k, law.candidates) for k in STEPS} - {0})
        if not self._ks:
            raise ValueError("sglang-throughput needs a candidate above 0, because its source drafts always")
        self._costs = costs
        self._batches = sorted({batch for batch, _ in costs})
        self._windows = [deque[float](maxlen=WINDOW) for _ in range(self._ks[-1])]
        self._k = BEGIN if BEGIN in self._ks else self._ks[len(self._ks) // 2]
        self._since = 0.0

    def choose(self, batch: int) -> int:
        """Judge where enough steps passed and every position of K has a full window."""
        if self._since >= UPDATE_BATCHES:
            if all(len(window) == WINDOW for window in self._windows[: self._k]):
                self._judge(batch)
            self._since = 0.0
        return self._k

    def verified(self, done: Verified) -> None:
        """Each step adds the ratio of its requests that accepted a position."""
        for window, rate in zip(self._windows, done.rates, strict=False):
            window.extend([rate] * min(WINDOW, int(done.steps)))
        self._since += done.steps

    def schedule(self) -> Schedule:
        """See `StepRule`."""
        return Schedule.constant(self._k)

    def score(self, batch: int, k: int) -> float:
        """Expected tokens of a request per millisecond."""
        return (1.0 + sum(self._rates(k))) / self._cost(batch, k)

    def _judge(self, batch: int) -> None:
        scores = {k: self.score(batch, k) for k in self._ks}
        best = max(scores, key=lambda k: (scores[k], -k))
        if scores[best] > scores[self._k] * (1.0 + HYSTERESIS):
            if best < self._k:
                for window in self._windows[best:]:
                    window.clear()
            self._k = best

    def _rates(self, k: int) -> Sequence[float]:
        """Acceptance by position; one that was never drafted continues the ratio of those before."""
        rates: list[float] = []
        for window in self._windows[:k]:
            if window:
                rates.append(sum(window) / len(window))
            elif len(rates) == 1:
                rates.append(rates[0])
            elif rates[0] <= 0:
                rates.append(0.0)
            else:
                ratio = (rates[-1] / rates[0]) ** (1.0 / (len(rates) - 1))
                rates.append(rates[-1] * min(1.0, ratio))
        return rates

    def _cost(self, batch: int, k: int) -> float:
        """At the next larger batch that was measured."""
        place = min(bisect_left(self._batches, batch), len(self._batches) - 1)
        return self._costs[self._batches[place], k]


def measured_costs(profile: StepTimeProfile) -> Mapping[tuple[int, int], float]:
    """Milliseconds by batch size and K, at the smallest context of a profile.

    The source measures at 128 tokens, one context for all.
    """
    least = min((cell.context or 0.0 for cell in profile.cells), default=0.0)
    return {
        (round(cell.batch_size), cell.k): 1000.0 * cell.step_seconds
        for cell in profile.cells
        if (cell.context or 0.0) == least
    }
