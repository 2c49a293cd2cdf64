"""What live steps and a map tell together.

Two stories of the map are weighed by how well each foretold the live steps (Bayesian model averaging,
Hoeting et al. 1999). In one the map is of these engines: live steps differ from it by a scale, by slopes
in batch and depth, and by each cell's own error, all of which are learnt with the surface. In the other
it is of something else and tells nothing. While the stories disagree and neither is sure, the
difference between them is an error of what is believed, so that slices go there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log

import numpy as np

from outrider.tuning.estimate.features import MEANS, Array
from outrider.tuning.estimate.step_time_map import StepTimeMap
from outrider.tuning.estimate.surface import (
    Evidence,
    Known,
    Place,
    Rows,
    covariance,
    noise_variances,
    of_live_steps,
)
from outrider.tuning.policy import Estimation


@dataclass(frozen=True)
class Told:
    """Log step seconds at the places that were asked for."""

    means: Array  # [n]
    covariance: Array  # [n, n]
    trust: float  # 0..1: how likely the map is of these engines; 0 without one


def blend(
    known: Sequence[Known],
    step_times: StepTimeMap | None,
    points: Sequence[Place],
    estimation: Estimation,
    *,
    noise: float,
    now: float,
) -> Told:
    """From live steps, and from a map as far as it foretold them. noise, now: see `surface.predict`."""
    if step_times is None or not step_times.compares:
        alone = of_live_steps(known, estimation, noise=noise, now=now)
        return Told(*alone.told(points), trust=0.0)
    alone, both, trust = _stories(tuple(known), step_times, estimation, noise, now)
    if trust <= 0.0:
        return Told(*alone.told(points), trust=0.0)
    means, spread = both.told(points)
    if trust >= 1.0:
        return Told(means, spread, trust)
    other_means, other_spread = alone.told(points)
    apart = means - other_means
    return Told(
        trust * means + (1 - trust) * other_means,
        trust * spread + (1 - trust) * other_spread + trust * (1 - trust) * np.outer(apart, apart),
        trust,
    )


def trust_in(
    step_times: StepTimeMap, known: Sequence[Known], estimation: Estimation, *, noise: float, now: float
) -> float:
    """0..1: how likely the map is of the engines whose live steps these are."""
    if not step_times.compares:
        return 0.0
    return _stories(tuple(known), step_times, estimation, noise, now)[2]


@lru_cache(maxsize=2)
def _stories(
    known: tuple[Known, ...], step_times: StepTimeMap, estimation: Estimation, noise: float, now: float
) -> tuple[Evidence, Evidence, float]:
    """Live steps alone, both together, and the trust in the map. Remembered: a tick asks several times."""
    alone = of_live_steps(known, estimation, noise=noise, now=now)
    variances = noise_variances(known, estimation, noise=noise, now=now)
    both = _with_map(known, step_times, estimation, variances)
    return alone, both, _trust(alone, both, step_times, estimation)


def _trust(alone: Evidence, both: Evidence, step_times: StepTimeMap, estimation: Estimation) -> float:
    foretold = both.log_density - _log_density(step_times, estimation)
    odds = estimation.map_trust / (1 - estimation.map_trust)
    return _share(log(odds) + foretold - alone.log_density)


_LEAST_SHARE = 1e-6


def _share(log_odds: float) -> float:
    """0..1; what is beyond doubt is 0 or 1."""
    share = 1.0 / (1.0 + exp(-min(max(log_odds, -30.0), 30.0)))
    return 0.0 if share < _LEAST_SHARE else 1.0 if share > 1.0 - _LEAST_SHARE else share


def _with_map(
    known: Sequence[Known], step_times: StepTimeMap, estimation: Estimation, variances: Array
) -> Evidence:
    """Live steps, then cells of the map, whose errors are its own and those that they share."""
    cells, live = step_times.cells, len(known)
    rows = Rows.of([*known, *cells])
    values = np.array([*(k.log_step for k in known), *(c.log_step for c in cells)]) - rows.features @ MEANS
    inner = covariance(rows, rows, estimation)
    inner[live:, live:] += _shared_errors(Rows.of(cells), estimation)
    inner.flat[:: len(values) + 1] += np.array([*variances, *(c.error**2 for c in cells)])
    return Evidence(rows, values, inner, estimation)


@lru_cache(maxsize=64)
def _log_density(step_times: StepTimeMap, estimation: Estimation) -> float:
    return _with_map((), step_times, estimation, np.empty(0)).log_density


def _shared_errors(cells: Rows, estimation: Estimation) -> Array:
    """Covariance of how far a map is from live traffic, besides each cell's own error."""
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
