"""What K=0 costs beside a loaded drafter: the tax that a launch without drafter does not pay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log1p, sqrt

from outrider.tuning.limits import Log, UnixSeconds, Variance
from outrider.tuning.policy import Estimation


@dataclass(frozen=True, slots=True)
class Sample:
    """One comparison: K=0 beside a drafter, as it is believed, with a step of a launch without one."""

    value: float  # log of the step times' ratio
    believed: float  # variance of what is believed; neighbouring samples share it
    noise: float  # variance of the step time that was measured


@dataclass(frozen=True, slots=True)
class Tax:
    """Log of the step time with K=0 beside a drafter over that of a launch without one."""

    mean: Log
    variance: Variance
    measured_at: UnixSeconds | None = None  # of the newest measurement; None: a prior

    @classmethod
    def prior(cls, estimation: Estimation) -> Tax:
        """What is taken for true as long as nobody measured it."""
        return cls(log1p(estimation.k0_tax), estimation.k0_tax_deviation**2)

    @property
    def deviation(self) -> float:
        """Standard error."""
        return sqrt(self.variance)

    def at(self, now: float, estimation: Estimation) -> Tax:
        """What is left of it: the longer ago it was measured, the less sure."""
        if self.measured_at is None:
            return self
        left = 0.5 ** (max(0.0, now - self.measured_at) / estimation.tax_half_life_seconds)
        prior = estimation.k0_tax_deviation**2
        return Tax(self.mean, prior + (min(self.variance, prior) - prior) * left, self.measured_at)

    def after(self, samples: Iterable[Sample], now: float, estimation: Estimation) -> Tax:
        """With one tick's comparisons (Kalman).

        It never gets surer than what is believed of K=0, since that error is in every sample; where
        that is hardly better known than the tax itself, many samples would only repeat the error.
        """
        found = self.at(now, estimation)
        for sample in samples:
            if sample.believed > 0.5 * estimation.k0_tax_deviation**2:
                continue
            gain = found.variance / max(found.variance + sample.believed + sample.noise, 1e-12)
            least = min(found.variance, sample.believed)
            found = Tax(
                found.mean + gain * (sample.value - found.mean),
                max((1 - gain) * found.variance, least),
                now,
            )
        return found

    def measured(self, estimation: Estimation) -> bool:
        """Whether it is known clearly better than the prior."""
        limit = estimation.tax_measured_share * estimation.k0_tax_deviation
        return self.measured_at is not None and self.deviation < limit
