"""How often drafts are accepted, position by position, and what that means for every K.

    E[tokens | K] = 1 + sum over j <= K of a_1 x ... x a_j

a_j: ratio of position j that is accepted, given that position j - 1 was. The 1 is the token that
the verifying step gives in any case.
Source: Leviathan et al. 2023, arXiv 2211.17192, equation 1. There one rate a holds at every position, so
the sum is (1 - a^(K+1)) / (1 - a). Here each position has a rate of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log, sqrt
from typing import Annotated

import numpy as np
from pydantic import Field

from outrider.api.drafting import MAX_K
from outrider.tuning.bounded_types import Count
from outrider.tuning.estimate.features import Array
from outrider.tuning.observe.readings import Reading
from outrider.tuning.policy import Estimation

_PRIOR_RATE = 0.6
_PRIOR_COUNT = 4.0
"""Weight, in drafts, of the prior of a position that was not drafted. It accepts like the position before,
and no better than all positions before it together, since longer drafts do not get surer."""
_GUESS_COUNT = 20.0
"""Drafts that the guess weighs how other text fares where it was not drafted: it is off by a tenth or so."""


@dataclass(frozen=True)
class Tokens:
    """log E[tokens per request-step] of each candidate, and how sure that is, position by position."""

    log_mean: Array  # [candidates]
    slopes: Array  # [candidates, positions]: of `log_mean` by the acceptance of each position
    variances: Array  # [positions]: of that acceptance
    precision: Array  # [positions]: by which one draft that is long enough adds to 1 / variance

    @cached_property
    def covariance(self) -> Array:
        """Of `log_mean`."""
        return (self.slopes * self.variances) @ self.slopes.T

    def learnt(self, ks: Sequence[int], drafts: Array) -> Array:
        """[ks, n, positions]: what so many drafts of K tokens will take from `variances`. drafts: [ks, n]."""
        drafted = np.arange(len(self.variances)) < np.array(ks)[:, None, None]
        added = np.where(drafted, drafts[:, :, None] * self.precision, 0.0)
        return self.variances * (1.0 - 1.0 / (1.0 + self.variances * added))

    def after(self, learnt: Array) -> Tokens:
        """Surer by that, with the same means. learnt: [positions]."""
        return replace(self, variances=self.variances - learnt)


_PerPosition = Annotated[tuple[Count, ...], Field(max_length=MAX_K)]


@dataclass(frozen=True, slots=True)
class Profile:
    """Per position: drafts that got so far (`tried`), and those accepted there too. Older ones count less."""

    tried: _PerPosition = ()
    accepted: _PerPosition = ()
    shifted: bool = False  # the newest readings come from other text than before

    @classmethod
    def of_survival(cls, survival: Sequence[float], drafts: float) -> Profile:
        """What engines counted themselves that choose K at each step.

        Their drafts are of the texts that suit drafts, so a count of them would promise too much.

        survival: see `Window.survival`. drafts: how many of them it weighs as.
        """
        tried, accepted, reached = list[float](), list[float](), 1.0
        for share in survival:
            tried.append(drafts * reached)
            reached = min(max(share, 0.0), reached)
            accepted.append(drafts * reached)
        return cls(tuple(tried), tuple(accepted))

    def rates(self, length: int) -> tuple[Array, Array]:
        """Acceptance of each position, given that the one before was accepted, and its variance."""
        rates, variances = np.empty(length), np.empty(length)
        expected, survival = _PRIOR_RATE, 1.0
        for position in range(length):
            tried, hits = self._counts(position)
            rate = (hits + expected * _PRIOR_COUNT) / (tried + _PRIOR_COUNT)
            rate = min(max(rate, 1e-3), 1 - 1e-3)
            rates[position] = rate
            variances[position] = rate * (1 - rate) / (tried + _PRIOR_COUNT)
            survival *= rate
            expected = min(rate, survival ** (1 / (position + 1)))
        return rates, variances

    def tokens(self, candidates: tuple[int, ...], limited: Sequence[float] = ()) -> Tokens:
        """Tokens per request-step of each K.

        limited: by position, the ratio of requests whose own K limit leaves it out. They gain nothing there:
            E[tokens | K] = 1 + sum over j <= K of (1 - limited_j) x a_1 x ... x a_j.
        """
        rates, variances = self.rates(max(candidates, default=0))
        survival = np.cumprod(rates)
        left_out = np.array([*limited, *[0.0] * len(rates)][: len(rates)])
        gained = survival * (1.0 - left_out)
        means = np.array([1.0 + gained[:k].sum() for k in candidates])
        slopes = np.zeros((len(candidates), len(rates)))
        for row, k in enumerate(candidates):
            tails = np.cumsum(gained[:k][::-1])[::-1]
            slopes[row, :k] = tails / rates[:k] / means[row]
        reached = np.concatenate(([1.0], survival[:-1]))[: len(rates)]
        return Tokens(np.log(means), slopes, variances, reached / (rates * (1 - rates)))

    def after(self, readings: Iterable[Reading], seconds: float, estimation: Estimation) -> Profile:
        """With one tick's drafts; `seconds` since the tick before."""
        tried, accepted = _counts(readings)
        undrafted = 0.5 ** (max(0.0, seconds) / estimation.undrafted_half_life_seconds)
        if not tried or tried[0] <= 0:
            return Profile(_faded(self.tried, undrafted), _faded(self.accepted, undrafted))
        moved = self._tells_of_a_shift(tried, accepted, estimation)
        keep = 0.0 if moved else 0.5 ** (max(0.0, seconds) / estimation.acceptance_half_life_seconds)
        first = _sum(self._kept(0, keep), (tried[0], accepted[0]))
        power = _power(self._counts(0), (tried[0], accepted[0]) if moved else first)
        rows = [first]
        for position in range(1, max(len(tried), len(self.tried))):
            new = _at(tried, accepted, position)
            follows = moved or new[0] <= 0
            old = self._guess(position, power, keep, undrafted) if follows else self._kept(position, keep)
            rows.append(_sum(old, new))
        return Profile(tuple(t for t, _ in rows), tuple(a for _, a in rows), shifted=moved)

    def _kept(self, position: int, keep: float) -> tuple[float, float]:
        """What is left of the counts of a position that is drafted now."""
        tried, hits = self._counts(position)
        return tried * keep, hits * keep

    def _guess(self, position: int, power: float, keep: float, undrafted: float) -> tuple[float, float]:
        """The same of one that is not: text that is harder at first is taken to be so further on.

        Without drafts the counts fade by `undrafted`; of other text they are but a guess.
        """
        tried, hits = self._counts(position)
        left = tried * undrafted if keep > 0 else min(tried, _GUESS_COUNT)
        return left, left * _rate((tried, hits)) ** power

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


def _faded(counts: tuple[float, ...], kept: float) -> tuple[float, ...]:
    return tuple(count * kept for count in counts)


def _at(tried: tuple[float, ...], accepted: tuple[float, ...], position: int) -> tuple[float, float]:
    return (tried[position], accepted[position]) if position < len(tried) else (0.0, 0.0)


def _sum(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    return a[0] + b[0], a[1] + b[1]


_LEAST_RATE, _MAX_RATE = 0.02, 0.98
"""Between which acceptance is compared by logarithms."""


def _rate(counts: tuple[float, float]) -> float:
    tried, hits = counts
    return min(max(hits / tried, _LEAST_RATE), _MAX_RATE) if tried > 0 else _PRIOR_RATE


def _power(before: tuple[float, float], now: tuple[float, float]) -> float:
    """By which acceptance of the first position moved: `now` is `before` to this power."""
    return log(_rate(now)) / log(_rate(before)) if before[0] > 0 else 1.0
