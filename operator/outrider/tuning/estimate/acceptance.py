"""How often drafts are accepted, position by position, and what that means for every K.

    E[tokens | K] = 1 + sum over j <= K of a_1 x ... x a_j

a_j: share of position j that is accepted, given that position j - 1 was. The 1 is the token that
the verifying step gives in any case.
Source: Leviathan et al. 2023, arXiv 2211.17192, equation 1: (1 - a^(K+1)) / (1 - a) for one rate a
at every position, of which this is the sum before it is closed, with a rate for each position.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from outrider.api.drafting import MAX_K
from outrider.tuning.limits import Count
from outrider.tuning.observe.readings import Reading
from outrider.tuning.policy import Estimation

_PRIOR_RATE = 0.6
_PRIOR_COUNT = 4.0
"""A position that nobody drafted is taken to accept like the one before, with the weight of a few drafts."""


_PerPosition = Annotated[tuple[Count, ...], Field(max_length=MAX_K)]


@dataclass(frozen=True, slots=True)
class Profile:
    """Per position: drafts that got so far (`tried`), and those accepted there too. Older ones count less."""

    tried: _PerPosition = ()
    accepted: _PerPosition = ()
    shifted: bool = False  # the newest readings tell of other text than before

    def rates(self, length: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Acceptance of each position, given that the one before was accepted, and its variance."""
        rates, variances = np.empty(length), np.empty(length)
        before = _PRIOR_RATE
        for position in range(length):
            tried, hits = self._counts(position)
            rate = (hits + before * _PRIOR_COUNT) / (tried + _PRIOR_COUNT)
            before = min(max(rate, 1e-3), 1 - 1e-3)
            rates[position] = before
            variances[position] = before * (1 - before) / (tried + _PRIOR_COUNT)
        return rates, variances

    def tokens_per_step(self, candidates: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """log E[tokens per request-step] of each K, and its covariance."""
        rates, variances = self.rates(max(candidates, default=0))
        survival = np.cumprod(rates)
        means = np.array([1.0 + survival[:k].sum() for k in candidates])
        slopes = np.zeros((len(candidates), len(rates)))
        for row, k in enumerate(candidates):
            tails = np.cumsum(survival[:k][::-1])[::-1]
            slopes[row, :k] = tails / rates[:k] / means[row]
        return np.log(means), (slopes * variances) @ slopes.T

    def after(self, readings: Iterable[Reading], seconds: float, estimation: Estimation) -> Profile:
        """With one tick's drafts; `seconds` since the tick before."""
        tried, accepted = _counts(readings)
        if not tried or tried[0] <= 0:
            return Profile(self.tried, self.accepted)
        old = (
            self._moved(tried, accepted)
            if (moved := self._tells_of_a_shift(tried, accepted, estimation))
            else self
        )
        keep = 0.5 ** (max(0.0, seconds) / estimation.acceptance_half_life_seconds)
        length = max(len(tried), len(old.tried))
        rows = [(*old._counts(j), *_at(tried, accepted, j)) for j in range(length)]
        # A position that is not drafted now keeps what is known of it.
        kept = [(keep if new > 0 else 1.0) for _, _, new, _ in rows]
        return Profile(
            tuple(o * w + n for (o, _, n, _), w in zip(rows, kept, strict=True)),
            tuple(h * w + a for (_, h, _, a), w in zip(rows, kept, strict=True)),
            shifted=moved,
        )

    def _counts(self, position: int) -> tuple[float, float]:
        return _at(self.tried, self.accepted, position)

    def _tells_of_a_shift(
        self, tried: tuple[float, ...], accepted: tuple[float, ...], estimation: Estimation
    ) -> bool:
        known, hits = self._counts(0)
        if min(known, tried[0]) < estimation.shift_drafts:
            return False
        before, now = hits / known, accepted[0] / tried[0]
        pooled = (hits + accepted[0]) / (known + tried[0])
        error = sqrt(pooled * (1 - pooled) * (1 / known + 1 / tried[0]) + estimation.acceptance_noise**2)
        return abs(now - before) > 3.0 * error

    def _moved(self, tried: tuple[float, ...], accepted: tuple[float, ...]) -> Profile:
        """What is left of it after a shift: deeper positions are guessed to move like the first."""
        known, hits = self._counts(0)
        ratio = (accepted[0] / tried[0]) / max(hits / known, 1e-3)
        weights = [min(1.0, _PRIOR_COUNT / max(count, 1e-9)) for count in self.tried]
        counts = tuple(count * w for count, w in zip(self.tried, weights, strict=True))
        guesses = (
            min(count, a * w * ratio) for count, a, w in zip(counts, self.accepted, weights, strict=True)
        )
        return Profile(counts, tuple(guesses))


def _counts(readings: Iterable[Reading]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Position j is tried by drafts that have it and whose position j - 1 was accepted."""
    rows = [r for r in readings if r.drafted]
    length = max((len(r.drafted) for r in rows), default=0)
    tried, accepted = [0.0] * length, [0.0] * length
    for row in rows:
        for position, hits in enumerate(row.accepted[: len(row.drafted)]):
            before = row.drafted[0] if position == 0 else row.accepted[position - 1]
            tried[position] += max(before, hits)
            accepted[position] += hits
    return tuple(tried), tuple(accepted)


def _at(tried: tuple[float, ...], accepted: tuple[float, ...], position: int) -> tuple[float, float]:
    return (tried[position], accepted[position]) if position < len(tried) else (0.0, 0.0)
