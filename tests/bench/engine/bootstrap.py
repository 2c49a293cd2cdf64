"""How sure a figure is: everything that was measured more than once is drawn again. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.bench.engine.rates import Rate

Draws = NDArray[np.float64]
"""One value per draw."""
DRAWS = 2000
SINGLE_NOISE = 0.05
"""Relative standard error of what was measured only once on a real engine: identical runs differ by that."""


@dataclass(frozen=True, slots=True)
class Clairvoyant:
    """The best static K of a load, chosen with one half of the slices and valued with the other.

    The best of several noisy means is biased upwards; this one is not.
    """

    choices: tuple[str, str]
    """Chosen with the even rounds, and with the odd ones."""
    value: float
    """Tokens per second."""
    draws: Draws


def resampled(
    rates: Sequence[Rate], generator: np.random.Generator, single_noise: float = SINGLE_NOISE
) -> Draws:
    """Tokens per second of as many pieces, drawn with replacement."""
    if len(rates) == 1:
        return rates[0].value * _single((DRAWS,), generator, single_noise)
    tokens = np.array([one.tokens for one in rates])
    seconds = np.array([one.seconds for one in rates])
    drawn = generator.integers(len(rates), size=(DRAWS, len(rates)))
    found: Draws = tokens[drawn].sum(axis=1) / seconds[drawn].sum(axis=1)
    return found


def _single(shape: tuple[int, ...], generator: np.random.Generator, noise: float) -> Draws:
    return np.exp(noise * generator.standard_normal(shape))


def clairvoyant(
    slices: Mapping[str, Sequence[Rate]], generator: np.random.Generator, single_noise: float = SINGLE_NOISE
) -> Clairvoyant | None:
    """Of one load. slices: by static arm. None where an arm lacks one half: it might be the best one."""
    arms = sorted(slices)
    if not arms or any({one.number % 2 for one in rates} != {0, 1} for rates in slices.values()):
        return None
    halves = [_half(arms, slices, parity) for parity in (0, 1)]
    means = [np.nanmean(half, axis=1, keepdims=True) for half in halves]
    drawn = [_drawn(half, generator, single_noise) for half in halves]
    best = [int(np.argmax(one[:, 0])) for one in means]
    return Clairvoyant(
        choices=(arms[best[0]], arms[best[1]]),
        value=float(_swapped(means)[0]),
        draws=_swapped(drawn),
    )


def _half(arms: Sequence[str], slices: Mapping[str, Sequence[Rate]], parity: int) -> Draws:
    """Arms by rounds of one parity; not a number where a slice is missing."""
    rounds = sorted({one.number for arm in arms for one in slices[arm] if one.number % 2 == parity})
    known = {(arm, one.number): one.value for arm in arms for one in slices[arm]}
    return np.array([[known.get((arm, number), np.nan) for number in rounds] for arm in arms])


def _drawn(half: Draws, generator: np.random.Generator, single_noise: float) -> Draws:
    """Means of each arm over rounds drawn with replacement; the same rounds for all arms."""
    if half.shape[1] == 1:
        return half * _single((len(half), DRAWS), generator, single_noise)
    rounds = generator.integers(half.shape[1], size=(DRAWS, half.shape[1]))
    sampled = half[:, rounds]
    known = ~np.isnan(sampled)
    count = known.sum(axis=2)
    total = np.where(known, sampled, 0.0).sum(axis=2)
    found: Draws = np.where(count > 0, total / np.maximum(count, 1), np.nanmean(half, axis=1)[:, None])
    return found


def _swapped(halves: Sequence[Draws]) -> Draws:
    """Choose with one half and value with the other, and the other way round."""
    first, second = halves
    columns = np.arange(first.shape[1])
    one = second[np.argmax(first, axis=0), columns]
    other = first[np.argmax(second, axis=0), columns]
    found: Draws = (one + other) / 2
    return found


def policy_draws(
    runs: Sequence[Sequence[Sequence[Rate]]],
    generator: np.random.Generator,
    single_noise: float = SINGLE_NOISE,
) -> list[Draws]:
    """Tokens per second of each phase, over runs and pieces drawn with replacement.

    runs: pieces by phase by run. Runs are drawn once for all phases, since they share what was learnt.
    """
    chosen = generator.integers(len(runs), size=(DRAWS, len(runs)))
    columns = np.arange(DRAWS)[:, None]
    found = []
    for phase in range(len(runs[0])):
        each = np.stack([resampled(run[phase], generator, single_noise) for run in runs])
        found.append(each[chosen, columns].mean(axis=1))
    return found
