"""A policy that relies on a model: it fits step time and acceptance, and probes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider_lab.rivals.tuners import ScheduleRule, hand_table
from outrider_protocol.schedule import Row, Schedule


def binned_table(law: Policy, chosen: dict[int, int]) -> Schedule:
    """One row per batch bin; a bin without a choice takes the hand table's K at its lower edge."""
    hand = hand_table(law.candidates)
    rows = []
    for index in range(len(law.bins)):
        low, high = law.limits(index)
        rows.append(Row(high, chosen.get(index, hand.k_at(low))))
    return Schedule(tuple(rows)).merged()


class ModelOnly(ScheduleRule):
    """`model`: the K that a step-time model and the acceptance seen so far promise, and no exploration.

    It fits the step time by least squares with a forgetting factor and a prior. In the prior, drafting one
    token costs 4 % of c0, and a token of batch 0.3 %.

        T = c0 + c1 B (1 + K) + [drafting] (d0 + d1 K + d2 K B)
    """

    FORGET = 0.98  # per tick
    PRIOR = np.array([1.0, 0.003, 0.02, 0.04, 0.0005])
    PRIOR_WEIGHT = 0.02  # against one window

    def __init__(self, law: Policy) -> None:
        self._law = law
        self._gram = np.zeros((5, 5))
        self._moment = np.zeros(5)
        self._scale: float | None = None
        self._accepted: dict[int, float] = defaultdict(float)
        self._drafted: dict[int, float] = defaultdict(float)
        self.schedule = hand_table(law.candidates)

    def follow(self, seen: Sequence[Window], now: float) -> None:  # noqa: ARG002
        """Learn, then the best K of every bin."""
        if seen:
            self._gram *= self.FORGET
            self._moment *= self.FORGET
            for window in seen:
                self._learn(window)
            self.schedule = binned_table(self._law, self._choices())

    def _learn(self, window: Window) -> None:
        for position, count in enumerate(window.accepted_per_position):
            self._accepted[position] = self.FORGET * self._accepted[position] + count
            self._drafted[position] = self.FORGET * self._drafted[position] + window.drafts
        batch, seconds = window.batch_size, window.step_seconds
        drafts = window.drafts / window.request_steps
        k = window.draft_tokens / window.drafts if drafts > 0.5 else 0.0
        if batch is None or seconds is None:
            return
        if self._scale is None:
            self._scale = seconds / float(_features(batch, k) @ self.PRIOR)
        target, row = seconds / self._scale, _features(batch, k)
        self._gram += np.outer(row, row) / target**2  # relative errors are equal, so small times weigh more
        self._moment += row / target

    def _choices(self) -> dict[int, int]:
        pull = np.diag(self.PRIOR_WEIGHT / self.PRIOR**2)
        weights = np.linalg.solve(self._gram + pull, self._moment + pull @ self.PRIOR)
        weights = np.maximum(weights, 0.0)
        return {index: self._best(index, weights) for index in range(len(self._law.bins))}

    def _best(self, index: int, weights: NDArray[np.float64]) -> int:
        low, high = self._law.limits(index)
        batch = (low + (high or low)) / 2

        def promise(k: int) -> float:
            return self._tokens(k) / max(1e-9, float(_features(batch, k) @ weights))

        return max(self._law.candidates, key=lambda k: (promise(k), -k))

    def _tokens(self, k: int) -> float:
        """Expected tokens per step; positions never seen continue with the last ratio."""
        total, share, ratio = 1.0, 1.0, 0.7
        for position in range(k):
            if self._drafted[position] > 0 and self._accepted[position] > 0:
                now = min(share, self._accepted[position] / self._drafted[position])
                ratio, share = now / share, now
            else:
                share *= ratio
            total += share
        return total


def _features(batch: float, k: float) -> NDArray[np.float64]:
    drafting = 1.0 if k > 0 else 0.0
    return np.array([1.0, batch * (1 + k), drafting, k, k * batch])
