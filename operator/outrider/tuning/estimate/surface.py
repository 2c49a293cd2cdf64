"""The step-time surface: log step seconds over batch size, K, context and prompt share.

A Gaussian process (Rasmussen and Williams 2006, chapter 2) whose mean is linear in the terms of a
step-time model and whose residual is correlated between neighbouring batch sizes and equal K. It
pools everything measured, over batch bins, pods and contexts, and knows how sure it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, log2
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from outrider.tuning.limits import Log, Seconds, UnixSeconds, Whole
from outrider.tuning.observe.readings import Reading
from outrider.tuning.policy import Policy

Array = NDArray[np.float64]

MOST_KNOWN = 96
"""Cells that are remembered; the least measured go first. The surface takes time with the cube of it."""


@dataclass(frozen=True, slots=True)
class Known:
    """Weighted means over what was measured of one K in one batch bin and context octave.

    All of them are what the surface is linear in, so that a mean lies on it where its parts do.
    """

    bin: Whole
    k: Whole
    octave: Annotated[int, Field(ge=-60, le=60)] | None
    seconds: Seconds  # engine time; older counts less
    log_step: Log  # log of the mean step time, of a pod of average pace
    log_batch: Log  # log2
    log_context: Log | None  # log2
    log_prompts: Log  # log of the tokens of a step over those that are no prompt
    at: UnixSeconds  # of the newest

    @property
    def key(self) -> tuple[int, int, int | None]:
        """What is kept apart."""
        return self.bin, self.k, self.octave

    @classmethod
    def of(cls, reading: Reading, pace: float) -> Known:
        """One reading; `pace`: log of its pod's step time over that of an average pod."""
        context = reading.log_context
        return cls(
            bin=reading.bin,
            k=reading.k,
            octave=None if context is None else round(context),
            seconds=reading.seconds,
            log_step=log(reading.step_seconds) - pace,
            log_batch=log2(reading.batch_size),
            log_context=context,
            log_prompts=reading.log_prompts,
            at=reading.at,
        )

    def seconds_at(self, now: float, policy: Policy) -> float:
        """The weight that is left."""
        return float(self.seconds * 0.5 ** (max(0.0, now - self.at) / policy.half_life_seconds))

    def plus(self, other: Known, policy: Policy) -> Known:
        """Both together, aged to the newer time."""
        now = max(self.at, other.at)
        its = other.seconds_at(now, policy)
        total = self.seconds_at(now, policy) + its
        share = its / total if total > 0 else 0.5

        def mean(a: float, b: float) -> float:
            return a + (b - a) * share

        context = self.log_context
        if context is not None and other.log_context is not None:
            context = mean(context, other.log_context)
        return replace(
            self,
            seconds=total,
            log_step=mean(self.log_step, other.log_step),
            log_batch=mean(self.log_batch, other.log_batch),
            log_context=context,
            log_prompts=mean(self.log_prompts, other.log_prompts),
            at=now,
        )


@dataclass(frozen=True, slots=True)
class Point:
    """Where the surface is asked; without prompts unless they are named."""

    k: int
    log_batch: float
    log_context: float | None
    log_prompts: float = 0.0

    @classmethod
    def of(cls, reading: Reading) -> Point:
        """Where it was measured."""
        return cls(reading.k, log2(reading.batch_size), reading.log_context, reading.log_prompts)


_MEANS = np.array([-3.5, 0.15, 0.05, 0.35, 0.50, 0.05, 0.0, 0.3])
_DEVIATIONS = np.array([1.5, 0.20, 0.10, 0.25, 0.30, 0.10, 0.02, 0.4])
"""Prior of the weights of `_Places.features`: broad enough for a CPU and an H100.

The last one is 1 where a step takes as long as it has tokens, and 0 where more tokens cost nothing.
"""


def predict(
    known: Sequence[Known], points: Sequence[Point], policy: Policy, *, noise: float, now: float
) -> tuple[Array, Array]:
    """log step seconds at `points`: means [n] and covariance [n, n].

    noise: relative standard deviation of the mean step time of ten seconds.
    now: unix seconds; older measurements count less.
    """
    asked = _Places.of(points)
    prior = _covariance(asked, asked, policy)
    means = asked.features @ _MEANS
    if not known:
        return means, prior
    seen = _Places.of(known)
    values = np.array([k.log_step for k in known]) - seen.features @ _MEANS
    seconds = np.array([k.seconds_at(now, policy) for k in known])
    between = _covariance(asked, seen, policy)
    inner = _covariance(seen, seen, policy)
    inner.flat[:: len(known) + 1] += noise**2 * 10.0 / np.maximum(seconds, 1e-6) + 1e-9
    gain = np.linalg.solve(inner, between.T).T
    return means + gain @ values, prior - gain @ between.T


@dataclass(frozen=True)
class _Places:
    at: Array  # [n, 3]: K, log2 batch, log2 context over 1,024
    features: Array  # [n, 8]: the terms of the linear model

    @classmethod
    def of(cls, rows: Sequence[Known] | Sequence[Point]) -> _Places:
        at = np.array(
            [(r.k, r.log_batch, 0.0 if r.log_context is None else r.log_context - 10.0) for r in rows]
        )
        k, batch, context = at.T
        prompts = np.array([r.log_prompts for r in rows])
        features = np.empty((len(rows), 8))
        depth = np.log1p(k)
        columns = (1.0, batch, k > 0, depth, depth * batch / 5.0, context, depth * context, prompts)
        for column, values in enumerate(columns):
            features[:, column] = values
        return cls(at, features)


def _covariance(a: _Places, b: _Places, policy: Policy) -> Array:
    gap = (a.at[:, None, 1] - b.at[None, :, 1]) ** 2
    context = (a.at[:, None, 2] - b.at[None, :, 2]) ** 2
    same = a.at[:, None, 0] == b.at[None, :, 0]
    near = np.exp(gap * (-0.5 / policy.batch_octaves**2) - context * (0.5 / 3.0**2))
    local = np.exp(gap * (-0.5 / 0.5**2) - context * 0.5)
    residual: Array = (a.features * _DEVIATIONS**2) @ b.features.T
    residual += near * (policy.level_deviation**2 + policy.bend_deviation**2 * same)
    residual += (local * policy.cell_deviation**2 + policy.depth_deviation**2) * same
    return residual
