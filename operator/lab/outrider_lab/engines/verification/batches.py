"""Adaptive verification of batches whose requests are known by class alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outrider.performance.step_time import StepTime
from outrider_lab.engines.verification.confidence import concentration_of, draft_probabilities, log_odds_of
from outrider_lab.engines.verification.setting import AdaptiveVerification
from outrider_lab.engines.verification.verifier import Verifier

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POOL_DRAFTS = 4096
"""Drafts of a class that are drawn in advance, so that a run takes seconds."""
BLOCK_STEPS = 16
"""Most steps that are computed at once."""


@dataclass(frozen=True, slots=True)
class _Pool:
    """Drafts of one class, by draft and position."""

    log_odds: Floats
    survival: Floats  # probability that a draft is accepted up to a position
    runs: Ints  # accepted tokens in a row


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What steps with adaptive verification gave."""

    verified: float  # drafts per step, mean
    gained: Sequence[float]  # accepted tokens of each class, all steps
    expected: float  # tokens per step that the verified drafts give on average, with those of the target
    accepted: Sequence[float]  # drafts accepted up to each position, all steps


class BatchVerification:
    """One engine. chances: acceptance by position of a class at a time, which is constant over an epoch."""

    def __init__(
        self,
        step: StepTime,
        setting: AdaptiveVerification,
        chances: Callable[[int, float], Sequence[float]],
        *,
        longest: int,
        largest_batch: int,
        largest_tokens: int,
        rng: np.random.Generator,
    ) -> None:
        self._chances, self._rng = chances, rng
        self._concentration = concentration_of(setting.separation)
        self._longest = longest
        self._verifier = Verifier(
            step, setting, longest=longest, largest_batch=largest_batch, largest_tokens=largest_tokens
        )
        self._pools: dict[int, tuple[Sequence[float], _Pool]] = {}

    @property
    def most_steps(self) -> int:
        """Steps that can be computed at once."""
        return min(BLOCK_STEPS, self._verifier.estimator.steps_to_fit)

    def run(
        self, counts: Sequence[int], k: int, steps: int, at: float, *, prompt_tokens: int = 0, first: int = 0
    ) -> Trimmed:
        """Verify some steps of a batch. counts: requests in decode by class. first: prompts that end."""
        kinds = [kind for kind, number in enumerate(counts) if number]
        drawn = [self._drawn(kind, at, steps + 1, counts[kind]) for kind in kinds]
        log_odds, survival, runs = (np.concatenate(parts, axis=1) for parts in zip(*drawn, strict=True))
        log_odds, survival, runs = log_odds[:, :, :k], survival[1:, :, :k], runs[1:]
        widths = self._verifier.widths(log_odds[:-1], log_odds[1:], prompt_tokens=prompt_tokens, first=first)
        accepted = np.minimum(runs, widths)
        self._verifier.estimator.learn(log_odds[1:], widths, accepted)
        admitted = np.arange(k) < widths[:, :, None]
        edges = np.cumsum([0, *(counts[kind] for kind in kinds)])
        gained = [0.0] * len(counts)
        for kind, begin, end in zip(kinds, edges, edges[1:], strict=False):
            gained[kind] = float(accepted[:, begin:end].sum())
        return Trimmed(
            verified=float(widths.sum()) / steps,
            gained=gained,
            expected=sum(counts) + float((survival * admitted).sum()) / steps,
            accepted=[float((accepted > position).sum()) for position in range(k)],
        )

    def _drawn(self, kind: int, at: float, steps: int, requests: int) -> tuple[Floats, Floats, Ints]:
        """Drafts of a class by step and request."""
        pool = self._pool(kind, at)
        places = self._rng.integers(POOL_DRAFTS, size=(steps, requests))
        return pool.log_odds[places], pool.survival[places], pool.runs[places]

    def _pool(self, kind: int, at: float) -> _Pool:
        chances = self._chances(kind, at)
        known = self._pools.get(kind)
        if known is None or known[0] is not chances:
            known = self._pools[kind] = (chances, self._draw(chances))
        return known[1]

    def _draw(self, chances: Sequence[float]) -> _Pool:
        acceptance = np.array([chances[min(j, len(chances) - 1)] for j in range(self._longest)])
        hits = self._rng.random((POOL_DRAFTS, self._longest)) < acceptance
        runs = np.cumprod(hits, axis=1).sum(axis=1)
        probabilities = draft_probabilities(acceptance, runs, self._concentration, self._rng)
        # What is expected must not depend on chance, so each draft counts by its own probability.
        survival: Floats = np.cumprod(probabilities, axis=1, dtype=np.float64)
        return _Pool(log_odds_of(probabilities), survival, runs)
