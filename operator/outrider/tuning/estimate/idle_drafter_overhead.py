"""The overhead of the idle drafter: the slowdown at K=0 against a launch without a drafter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log1p, sqrt
from typing import Annotated

import numpy as np
from pydantic import Field

from outrider.tuning.bounded_types import Log, UnixSeconds, Variance
from outrider.tuning.estimate.features import Array
from outrider.tuning.estimate.surface import ObservedCell
from outrider.tuning.policy import Estimation

_MAX_CELLS = 32
"""Limit of stored cells of launches without a drafter; the most measured ones stay."""
_PAUSE_SECONDS = 900.0
"""Pause after which measurements of a launch without a drafter count as another launch."""


@dataclass(frozen=True, slots=True)
class IdleDrafterOverhead:
    """Log of the step time at K=0 with a drafter over that without one."""

    mean: Log
    variance: Variance  # of the measurement
    measured_at: UnixSeconds | None = None  # of the newest measurement; None: a prior
    between_pods: Variance = 0.0
    """That pods of equal launches differ as well, which no measurement of other pods can take away."""

    @classmethod
    def prior(cls, estimation: Estimation) -> IdleDrafterOverhead:
        """Return the estimate before any measurement."""
        return cls(log1p(estimation.k0_tax), estimation.k0_tax_deviation**2)

    @property
    def deviation(self) -> float:
        """Standard error of the measurement, which more of it reduces."""
        return sqrt(self.variance)

    @property
    def error(self) -> float:
        """Standard error in all."""
        return sqrt(self.variance + self.between_pods)

    def at(self, now: float, estimation: Estimation) -> IdleDrafterOverhead:
        """Return the estimate with the error that its age gives."""
        if self.measured_at is None:
            return self
        left = 0.5 ** (max(0.0, now - self.measured_at) / estimation.tax_half_life_seconds)
        prior = estimation.k0_tax_deviation**2
        return replace(self, variance=prior + (min(self.variance, prior) - prior) * left)

    def after(
        self, differences: Array, errors: Array, now: float, *, between_pods: float
    ) -> IdleDrafterOverhead:
        """Update by comparisons at several points (generalised least squares).

        differences: [n], estimated log step time at K=0 with a drafter minus the one measured without.
        errors: [n, n], their covariance, because they share the error of the estimate.
        """
        weights = np.linalg.solve(errors, np.ones(len(differences)))
        precision = 1 / max(self.variance, 1e-12) + float(weights.sum())
        total = self.mean / max(self.variance, 1e-12) + float(weights @ differences)
        return IdleDrafterOverhead(total / precision, 1 / precision, now, between_pods)

    def measured(self, estimation: Estimation) -> bool:
        """Return True if its error is clearly smaller than the prior's."""
        limit = estimation.tax_measured_share * estimation.k0_tax_deviation
        return self.measured_at is not None and self.deviation < limit


@dataclass(frozen=True, slots=True)
class Comparison:
    """A launch without a drafter, in comparison with others from its first measurement on."""

    before: IdleDrafterOverhead  # the estimate when this began
    cells: Annotated[
        tuple[ObservedCell, ...], Field(max_length=_MAX_CELLS)
    ] = ()  # measured without a drafter

    def over(self, now: float) -> bool:
        """Return True after a long pause without measurements."""
        return all(now - cell.at > _PAUSE_SECONDS for cell in self.cells)

    def plus(self, more: Sequence[ObservedCell], now: float, estimation: Estimation) -> Comparison:
        """Add newer measurements."""
        cells = {cell.key: cell for cell in self.cells}
        for cell in more:
            cells[cell.key] = cells[cell.key].plus(cell, estimation) if cell.key in cells else cell
        heaviest = sorted(cells.values(), key=lambda cell: (-cell.seconds_at(now, estimation), cell.key[0]))
        return replace(self, cells=tuple(heaviest[:_MAX_CELLS]))
