"""Estimates from live steps together with a step-time profile.

Two hypotheses are weighed by how well each predicted the live steps (Bayesian model averaging, Hoeting et
al. 1999):

- The profile is of these engines. Live steps differ from it by a scale, by slopes in batch and depth, and by
  each cell's own error. The surface learns all of these.
- The profile is of something else and has no information.

While the hypotheses disagree and neither is certain, their difference counts as error, which attracts probes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log

import numpy as np

from outrider.tuning.estimate.features import MEANS, Array
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.estimate.surface import (
    Evidence,
    ObservedCell,
    Place,
    Rows,
    covariance,
    noise_variances,
    of_live_steps,
)
from outrider.tuning.policy import Estimation


@dataclass(frozen=True)
class Prediction:
    """Log step seconds at the requested points."""

    means: Array  # [n]
    covariance: Array  # [n, n]
    trust: float  # probability that the profile is of these engines; 0 without one


def blend(
    known: Sequence[ObservedCell],
    step_times: StepTimeProfile | None,
    points: Sequence[Place],
    estimation: Estimation,
    *,
    noise: float,
    now: float,
) -> Prediction:
    """Estimate from live steps, and from a profile as far as it predicted them.

    noise: relative standard deviation of the mean step time of `NOISE_SECONDS`.
    now: unix seconds; older measurements count less.
    """
    if step_times is None or not step_times.compares:
        means, covariance = of_live_steps(known, estimation, noise=noise, now=now).predict(points)
        return Prediction(means, covariance, trust=0.0)
    alone, both, trust = _hypotheses(tuple(known), step_times, estimation, noise, now)
    # Before the first live step nothing speaks against the profile, so there is nothing to weigh.
    if trust in (0.0, 1.0) or not known:
        means, covariance = (both if trust else alone).predict(points)
        return Prediction(means, covariance, trust)
    means, spread = both.predict(points)
    other_means, other_spread = alone.predict(points)
    apart = means - other_means
    return Prediction(
        trust * means + (1 - trust) * other_means,
        trust * spread + (1 - trust) * other_spread + trust * (1 - trust) * np.outer(apart, apart),
        trust,
    )


def trust_in(
    step_times: StepTimeProfile,
    known: Sequence[ObservedCell],
    estimation: Estimation,
    *,
    noise: float,
    now: float,
) -> float:
    """Return the probability that the profile is of the engines with these live steps."""
    if not step_times.compares:
        return 0.0
    return _hypotheses(tuple(known), step_times, estimation, noise, now)[2]


@lru_cache(maxsize=2)
def _hypotheses(
    known: tuple[ObservedCell, ...],
    step_times: StepTimeProfile,
    estimation: Estimation,
    noise: float,
    now: float,
) -> tuple[Evidence, Evidence, float]:
    """Return the evidence of live steps, that of both, and the trust. It is cached for a tick's calls."""
    alone = of_live_steps(known, estimation, noise=noise, now=now)
    variances = noise_variances(known, estimation, noise=noise, now=now)
    both = _with_map(known, step_times, estimation, variances)
    return alone, both, _trust(alone, both, step_times, estimation)


def _trust(alone: Evidence, both: Evidence, step_times: StepTimeProfile, estimation: Estimation) -> float:
    foretold = both.log_density - _log_density(step_times, estimation)
    odds = estimation.map_trust / (1 - estimation.map_trust)
    return _share(log(odds) + foretold - alone.log_density)


_LEAST_SHARE = 1e-6


def _share(log_odds: float) -> float:
    """Return a probability; values next to 0 or 1 are rounded."""
    share = 1.0 / (1.0 + exp(-min(max(log_odds, -30.0), 30.0)))
    return 0.0 if share < _LEAST_SHARE else 1.0 if share > 1.0 - _LEAST_SHARE else share


def _with_map(
    known: Sequence[ObservedCell], step_times: StepTimeProfile, estimation: Estimation, variances: Array
) -> Evidence:
    """Return the evidence of live steps and of the profile's cells, with own and shared errors."""
    cells, live = step_times.cells, len(known)
    rows = Rows.of([*known, *cells])
    values = np.array([*(k.log_step for k in known), *(c.log_step for c in cells)]) - rows.features @ MEANS
    inner = covariance(rows, rows, estimation)
    inner[live:, live:] += _shared_errors(Rows.of(cells), estimation)
    inner.flat[:: len(values) + 1] += np.array([*variances, *(c.error**2 for c in cells)])
    return Evidence(rows, values, inner, estimation)


@lru_cache(maxsize=64)
def _log_density(step_times: StepTimeProfile, estimation: Estimation) -> float:
    return _with_map((), step_times, estimation, np.empty(0)).log_density


def _shared_errors(cells: Rows, estimation: Estimation) -> Array:
    """Return the covariance of the profile's deviation from live traffic, without each cell's own error."""
    at = cells.at
    terms = (
        (estimation.map_scale_deviation, np.ones_like(at.k)),
        (estimation.map_batch_deviation, at.batch),
        (estimation.map_depth_deviation, at.depth),
    )
    shared: Array = np.zeros((len(at.k), len(at.k)))
    for deviation, values in terms:
        shared += deviation**2 * np.outer(values, values)
    return shared
