"""The choice of K to probe: the knowledge gradient.

Source: Frazier, Powell and Dayanik 2009, for correlated normal estimates. Only the best alternative is
compared with the best K. Several probes are weighed together, because a single one may be too noisy to
change the choice (Frazier and Powell 2010). A probe measures a step time, which is noisy, and the acceptance
of every drafted position, which is a count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import erfc, pi, sqrt

import numpy as np

from outrider.tuning.estimate.features import Array
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.estimate.surface import noise_variance

_REPEATS = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
"""Numbers of probes that are weighed together."""
_LEAST_GAIN = 0.1
"""Minimum worth, relative to the goodput of a probe's time. A probe of an equal K costs nothing and would
otherwise repeat for ever."""
_LEAST_VARIANCE = 1e-20


@dataclass(frozen=True, slots=True)
class Terms:
    """Conditions under which a probe is worth its cost."""

    seconds: float  # engine time of a probe
    horizon: float  # seconds for which a better choice is useful, over all pods
    noise: float  # relative standard deviation of the goodput of `NOISE_SECONDS`
    loss_sigmas: float  # standard errors that are added to the estimated cost of a probe
    untouched_loss: float  # seconds; a larger loss budget counts as unused
    safe_loss: float  # relative; the K in force must not lose more against the smallest K
    safe_sigmas: float  # standard errors of that comparison


@dataclass(frozen=True, slots=True)
class Plan:
    """Probes to run next, in order."""

    ks: tuple[int, ...]
    losses: tuple[float, ...]  # seconds of the smallest K's goodput that each is expected to cost
    saturated: bool  # no further probe would be worth its cost


def next_slice(posterior: Posterior, among: Collection[int], terms: Terms) -> int | None:
    """Return the K whose probe has the maximum worth after its cost; None if no probe is worth it."""
    worth = worth_of_measuring(posterior, among, terms)
    k = max(worth, key=lambda k: (worth[k], -k))
    return k if worth[k] > _LEAST_GAIN else None


def worth_of_measuring(posterior: Posterior, among: Collection[int], terms: Terms) -> Mapping[int, float]:
    """Return the worth of a probe of each K after its cost, in seconds of the best K per second of probe."""
    ks = sorted(among)
    rows = [posterior.candidates.index(k) for k in ks]
    best = posterior.best(ks)
    gaps = posterior.value[posterior.candidates.index(best)] - posterior.value[rows]
    spent = _REPEATS * terms.seconds
    variances = noise_variance(terms.noise, spent)
    # [ks, repeats, rows], for all K at once: with arrays this small, a call costs more than its arithmetic.
    apart = posterior.told_apart(ks, best, variances, spent)
    value = _gain_of_choice(gaps, np.sqrt(np.maximum(apart, _LEAST_VARIANCE))).max(axis=-1)
    worth = (value * terms.horizon / spent).max(axis=-1) - gaps
    return dict(zip(ks, worth.tolist(), strict=True))


def _gain_of_choice(gaps: Array, deviations: Array) -> Array:
    """Return E[max(0, x)] of a normal x with mean -gap: the gain of choosing again after x is measured."""
    z = gaps / deviations
    beyond = [erfc(value) for value in (z / sqrt(2.0)).flat]
    tail = 0.5 * np.reshape(beyond, z.shape)
    gain: Array = deviations * np.exp(-0.5 * z * z) / sqrt(2.0 * pi) - gaps * tail
    return gain


def plan(
    posterior: Posterior, incumbent: int, among: Collection[int], terms: Terms, *, seconds: float, loss: float
) -> Plan:
    """Plan probes of the next `seconds`, without the incumbent, whose schedule runs anyway.

    loss: maximum cost of probes, in seconds of the smallest K's goodput. An unused budget always pays for one
        probe; otherwise an uncertain K would never be measured.
    """
    variance = noise_variance(terms.noise, terms.seconds)
    by_then = posterior
    floor, ks, left, losses = min(among, default=0), list[int](), seconds, list[float]()
    while left >= terms.seconds:
        k = next_slice(by_then, among, terms)
        if k is None and _doubtful(by_then, incumbent, floor, terms):
            k = floor
        if k is None:
            return Plan(tuple(ks), tuple(losses), saturated=True)
        if k != incumbent:
            expected, feared = _costs(posterior, k, floor, terms)
            if sum(losses) + feared > loss and (ks or loss < terms.untouched_loss):
                break
            ks.append(k)
            losses.append(expected)
        by_then = by_then.after_measuring(k, variance, terms.seconds)
        left -= terms.seconds
    return Plan(tuple(ks), tuple(losses), saturated=False)


def _doubtful(posterior: Posterior, incumbent: int, floor: int, terms: Terms) -> bool:
    """Return True if the smallest K may be better than allowed; then the tuner probes it in any case."""
    if incumbent == floor:
        return False
    gain, error = posterior.gain(incumbent, floor)
    return gain - terms.safe_sigmas * error < -terms.safe_loss


def _costs(posterior: Posterior, k: int, floor: int, terms: Terms) -> tuple[float, float]:
    """Return the cost of a probe in seconds of the smallest K's goodput: expected, and pessimistic."""
    if k == floor:
        return 0.0, 0.0
    mean, error = posterior.gain(floor, k)
    feared = max(0.0, mean + terms.loss_sigmas * error)
    return cost(posterior, k, floor) * terms.seconds, feared * terms.seconds


def cost(posterior: Posterior, k: int, floor: int) -> float:
    """Return the expected cost of a second of K, in seconds of the goodput of `floor`, the smallest K."""
    return max(0.0, posterior.gain(floor, k)[0])
