"""The central and the noncentral chi-square distribution, by their series; a library would be larger."""

from __future__ import annotations

import math

_STEPS = 10_000
_SMALL = 1e-14


def tail(statistic: float, freedom: int) -> float:
    """Probability of a larger value under the null hypothesis."""
    return 1.0 - _lower(freedom / 2, statistic / 2)


def quantile(share: float, freedom: int) -> float:
    """The value below which this ratio of the distribution lies; 0 < share < 1."""
    low, high = 0.0, float(freedom)
    while _lower(freedom / 2, high / 2) < share:
        high *= 2
    while low < (middle := (low + high) / 2) < high:
        if _lower(freedom / 2, middle / 2) < share:
            low = middle
        else:
            high = middle
    return high


def power(noncentrality: float, freedom: int, *, level: float) -> float:
    """Probability that a test at this level detects a difference of this size."""
    critical = quantile(1 - level, freedom)
    half = noncentrality / 2
    missed, weight_sum = 0.0, 0.0
    for count in range(_STEPS):
        weight = (
            math.exp(-half + count * math.log(half) - math.lgamma(count + 1)) if half else float(count == 0)
        )
        missed += weight * _lower(freedom / 2 + count, critical / 2)
        weight_sum += weight
        if count > half and 1 - weight_sum < _SMALL * 100:
            break
    return 1.0 - missed


def _lower(shape: float, at: float) -> float:
    """Regularised lower incomplete gamma function."""
    if at <= 0:
        return 0.0
    scale = math.exp(shape * math.log(at) - at - math.lgamma(shape))
    if at < shape + 1:
        return min(1.0, scale * _series(shape, at))
    return max(0.0, 1.0 - scale * _fraction(shape, at))


def _series(shape: float, at: float) -> float:
    term = total = 1.0 / shape
    for step in range(1, _STEPS):
        term *= at / (shape + step)
        total += term
        if term < total * _SMALL:
            break
    return total


def _fraction(shape: float, at: float) -> float:
    """Continued fraction of the upper part, by Lentz' method."""
    tiny = 1e-300
    b = at + 1.0 - shape
    c, d = 1.0 / tiny, 1.0 / b
    value = d
    for step in range(1, _STEPS):
        a = -step * (step - shape)
        b += 2.0
        d = 1.0 / (a * d + b or tiny)
        c = b + a / c or tiny
        value *= d * c
        if abs(d * c - 1.0) < _SMALL:
            break
    return value
