"""Which K is worth a slice of time: the knowledge gradient.

Source: Frazier, Powell and Dayanik 2009, for correlated normal beliefs; several slices at once are
weighed, since a single one may be too noisy to change a mind (Frazier and Powell 2010).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from outrider.tuning.estimate.belief import Belief
from outrider.tuning.estimate.surface import noise_variance

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(11)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_REPEATS = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
"""Numbers of slices that are weighed together."""


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
    rows = [belief.candidates.index(k) for k in sorted(among)]
    means, inner = belief.log_goodput[rows], belief.covariance[np.ix_(rows, rows)]
    spent = _REPEATS * terms.seconds
    variances = np.diag(inner)[:, None] + noise_variance(terms.noise, spent)[None, :]
    changes = inner[:, :, None] / np.sqrt(variances)[:, None, :]  # [measured, moved, repeats]
    outcomes = means[None, :, None, None] + changes[..., None] * _NODES
    value = (outcomes.max(axis=1) @ _WEIGHTS) - means.max()  # [measured, repeats]
    cost = (means.max() - means)[:, None] * spent
    net = (value * terms.horizon - cost) / spent
    row, repeats = np.unravel_index(int(net.argmax()), net.shape)
    return sorted(among)[int(row)] if net[row, repeats] > 0 else None


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
        by_then = by_then.after_measuring(k, variance)
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
