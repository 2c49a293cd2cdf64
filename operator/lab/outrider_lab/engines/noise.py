"""How far a measured goodput is off."""

from __future__ import annotations

from math import sqrt

import numpy as np

from outrider.tuning.policy import NOISE_SECONDS

LEAST_FACTOR = 0.05
"""Minimum ratio of a measured to the true goodput, even for short measurements."""


def noise_factor(noise: float, seconds: float, rng: np.random.Generator) -> float:
    """Measured over true goodput of one measurement of so many seconds. noise: relative, 1 sigma."""
    sigma = noise * sqrt(NOISE_SECONDS / seconds)
    return max(LEAST_FACTOR, 1.0 + sigma * float(rng.standard_normal()))
