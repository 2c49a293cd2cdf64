"""Which K is worth a slice of time: the knowledge gradient.

Source: Frazier, Powell and Dayanik 2009, for correlated normal beliefs, of which the best rival alone is
weighed against the best K; several slices at once are weighed, since a single one may be too noisy to
change a mind (Frazier and Powell 2010). What a slice tells is two things: a step time, which is noisy, and
the acceptance of every position that it drafts, which is counted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import erfc, pi, sqrt

import numpy as np

from outrider.tuning.estimate.belief import Belief
from outrider.tuning.estimate.features import Array
from outrider.tuning.estimate.surface import noise_variance

_REPEATS = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
"""Numbers of slices that are weighed together."""
_LEAST_GAIN = 0.1
"""Of what is made in a slice's time. What brings less is not tried: a look at an equal costs nothing, and
would never end."""
_LEAST_VARIANCE = 1e-20


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which a slice is worth its cost."""

    seconds: float  # engine time of a slice
    horizon: float  # seconds for which a better choice is of use, over all pods
    noise: float  # relative standard deviation of the goodput of `NOISE_SECONDS`
    loss_sigmas: float  # how far above what is believed the cost of a slice is feared to be
    untouched_loss: float  # seconds; a loss budget of at least this much has hardly been used
    safe_loss: float  # relative; the K in force must not lose more against the smallest K
    safe_sigmas: float  # how sure that has to be


@dataclass(frozen=True, slots=True)
class Plan:
    """Slices to run next, in order."""

    ks: tuple[int, ...]
    loss: float  # seconds of the smallest K's goodput that they may cost
    saturated: bool  # nothing else would be worth a slice


def next_slice(belief: Belief, among: Collection[int], terms: Terms) -> int | None:
    """The K whose measurement is worth most over its cost; None when none is worth it."""
    worth = worth_of_measuring(belief, among, terms)
    k = max(worth, key=lambda k: (worth[k], -k))
    return k if worth[k] > _LEAST_GAIN else None


def worth_of_measuring(belief: Belief, among: Collection[int], terms: Terms) -> Mapping[int, float]:
    """What one of a few slices of each K brings, less its cost; in seconds of the best K per second of it."""
    ks = sorted(among)
    rows = [belief.candidates.index(k) for k in ks]
    best = belief.best(ks)
    gaps = belief.log_goodput[belief.candidates.index(best)] - belief.log_goodput[rows]
    spent = _REPEATS * terms.seconds
    variances = noise_variance(terms.noise, spent)
    # [ks, repeats, rows], for all K at once: of tables this small, a call costs more than what it computes.
    apart = belief.told_apart(ks, best, variances, spent)
    value = _gain_of_choice(gaps, np.sqrt(np.maximum(apart, _LEAST_VARIANCE))).max(axis=-1)
    worth = (value * terms.horizon / spent).max(axis=-1) - gaps
    return dict(zip(ks, worth.tolist(), strict=True))


def _gain_of_choice(gaps: Array, deviations: Array) -> Array:
    """E[max(0, x)] of a normal x of mean -gap: what it brings to choose once more after x was told."""
    z = gaps / deviations
    beyond = [erfc(value) for value in (z / sqrt(2.0)).flat]
    tail = 0.5 * np.reshape(beyond, z.shape)
    gain: Array = deviations * np.exp(-0.5 * z * z) / sqrt(2.0 * pi) - gaps * tail
    return gain


def plan(
    belief: Belief, incumbent: int, among: Collection[int], terms: Terms, *, seconds: float, loss: float
) -> Plan:
    """What to run in the next `seconds`; the incumbent is not listed, since its table runs anyway.

    loss: seconds of the smallest K's goodput that slices may cost, at most. Of a budget that is
        untouched one slice is always paid, or ignorance would keep K where it is for ever.
    """
    variance = noise_variance(terms.noise, terms.seconds)
    by_then = belief
    floor, ks, left, lost = min(among, default=0), list[int](), seconds, 0.0
    while left >= terms.seconds:
        k = next_slice(by_then, among, terms)
        if k is None and _doubtful(by_then, incumbent, floor, terms):
            k = floor
        if k is None:
            return Plan(tuple(ks), lost, saturated=True)
        if k != incumbent:
            expected, feared = _costs(belief, k, floor, terms)
            if lost + feared > loss and (ks or loss < terms.untouched_loss):
                break
            ks.append(k)
            lost += expected
        by_then = by_then.after_measuring(k, variance, terms.seconds)
        left -= terms.seconds
    return Plan(tuple(ks), lost, saturated=False)


def _doubtful(belief: Belief, incumbent: int, floor: int, terms: Terms) -> bool:
    """Whether the smallest K may be better by more than is allowed: then it is looked at in any case."""
    if incumbent == floor:
        return False
    gain, error = belief.gain(incumbent, floor)
    return gain - terms.safe_sigmas * error < -terms.safe_loss


def _costs(belief: Belief, k: int, floor: int, terms: Terms) -> tuple[float, float]:
    """Seconds of the smallest K's goodput that a slice costs: as believed, and with bad luck."""
    if k == floor:
        return 0.0, 0.0
    mean, error = belief.gain(floor, k)
    feared = mean + terms.loss_sigmas * error
    return max(0.0, mean) * terms.seconds, max(0.0, feared) * terms.seconds
