"""How well a drafter knows which of its drafts will be accepted.

Each draft has a probability of its own, from a scaled beta distribution around the acceptance of its request
and position. So acceptance on average is that of engines without the model, and the same drafts are accepted.
The drafter shows this probability as the log-odds that vLLM's estimator expects of a usual drafter. So its
first coefficients are right for every text, which favours adaptive verification.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from outrider_lab.engines.verification.estimator import FIRST_INTERCEPT, FIRST_SLOPE, sigmoid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REFERENCE_ACCEPTANCE = 0.7
"""Acceptance at which the separation holds."""
_LOG_ODDS = (-7.0, 11.5)
"""Bounds for a drafter's best token: probabilities of 0.1 % and 99.999 %."""
_NARROWEST, _WIDEST = 1e-2, 1e4
_SAMPLES = 20_000


@lru_cache(maxsize=8)
def concentration_of(separation: float) -> float:
    """Concentration of the beta distribution whose draws separate accepted from rejected drafts so well.

    Raises:
        ValueError: bounded log-odds do not allow it.
    """
    if not 0.5 <= separation <= _separation_at(_NARROWEST):
        raise ValueError(
            f"separation is {separation:g}, must be from 0.5 to {_separation_at(_NARROWEST):.3f}"
        )
    low, high = log(_NARROWEST), log(_WIDEST)
    for _ in range(30):
        middle = (low + high) / 2
        if _separation_at(exp(middle)) > separation:
            low = middle
        else:
            high = middle
    return exp((low + high) / 2)


def _separation_at(concentration: float) -> float:
    """Probability that an accepted draft has a higher probability than a rejected one."""
    rng = np.random.default_rng(0)
    mean = np.full((_SAMPLES, 1), REFERENCE_ACCEPTANCE)
    accepted, rejected = (
        np.sort(draft_probabilities(mean, np.full(_SAMPLES, run), concentration, rng)[:, 0]) for run in (1, 0)
    )
    below = np.searchsorted(rejected, accepted, side="left")
    equal = np.searchsorted(rejected, accepted, side="right") - below
    return float((below + 0.5 * equal).mean() / _SAMPLES)


def draft_probabilities(
    acceptance: Floats, runs: Ints, concentration: float, rng: np.random.Generator
) -> Floats:
    """Probability of each draft, given what was accepted; one more axis than `runs`, for the position.

    acceptance: mean by position, with the leading axes of `runs` or ones that broadcast.
    runs: accepted tokens in a row, were the draft long enough.
    """
    lowest, highest = (sigmoid(FIRST_SLOPE * odds + FIRST_INTERCEPT) for odds in _LOG_ODDS)
    low = np.minimum(lowest, acceptance / 2)
    width = np.maximum(highest, (1 + acceptance) / 2) - low
    position = np.arange(acceptance.shape[-1])
    hit = runs[..., None] > position
    missed = runs[..., None] == position
    # The posterior of p = low + width x b after one draft: the distribution of b where the draft would have
    # been accepted at the lowest p, or rejected at the highest. Else it has one observation more. Nothing is
    # known of positions behind a rejection.
    chance = rng.random(hit.shape)
    hit &= chance >= low / acceptance
    missed &= chance >= (1 - low - width) / (1 - acceptance)
    alpha = (acceptance - low) / width * concentration
    drawn: Floats = low + width * rng.beta(alpha + hit, concentration - alpha + missed)
    return drawn


def log_odds_of(probabilities: Floats) -> Floats:
    """Log-odds of the drafter's best token, for which vLLM's first coefficients give the probability."""
    found: Floats = (np.log(probabilities / (1.0 - probabilities)) - FIRST_INTERCEPT) / FIRST_SLOPE
    return found
