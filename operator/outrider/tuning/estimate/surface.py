"""The step-time surface: log step seconds over batch size, K, context and prompt share.

It is a Gaussian process (Rasmussen and Williams 2006, chapter 2). Its mean is linear in the features of a
step-time model (`features.py`). Its residual is correlated between neighbouring batch sizes and equal K.
It combines all measurements, over batch bins, pods and contexts, and has an error for each estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, log2, pi
from typing import Annotated, Protocol, TypeVar

import numpy as np
from pydantic import Field

from outrider.tuning.bounded_types import Log, Seconds, UnixSeconds, Whole
from outrider.tuning.estimate.features import MEANS, VARIANCES, Array, Places, values
from outrider.tuning.observe.readings import Reading
from outrider.tuning.policy import NOISE_SECONDS, Estimation

_Seconds = TypeVar("_Seconds", float, Array)

MAX_KNOWN = 96
"""Limit of stored cells; the least measured are dropped first. CPU time rises with its cube."""


@dataclass(frozen=True, slots=True)
class ObservedCell:
    """Weighted means of the measurements of one K in one batch bin and context octave.

    The surface is linear in all of them, so a mean of points on the surface is on it, too.
    """

    bin: Whole
    k: Whole
    octave: Annotated[int, Field(ge=-60, le=60)] | None
    seconds: Seconds  # engine time; older counts less
    log_step: Log  # log of the mean step time, of a pod of average pace
    log_batch: Log  # log2
    log_context: Log | None  # log2
    log_prompts: Log  # log of all tokens of a step over its tokens outside of prompts
    at: UnixSeconds  # of the newest

    @property
    def key(self) -> tuple[int, int, int | None]:
        """Key of the stored cell."""
        return self.bin, self.k, self.octave

    @classmethod
    def of(cls, reading: Reading, pace: float) -> ObservedCell:
        """Convert one reading; `pace`: log of its pod's step time over that of an average pod."""
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

    def seconds_at(self, now: float, estimation: Estimation) -> float:
        """Return the remaining weight in seconds."""
        return float(self.seconds * 0.5 ** (max(0.0, now - self.at) / estimation.half_life_seconds))

    def plus(self, other: ObservedCell, estimation: Estimation) -> ObservedCell:
        """Combine both, aged to the newer time."""
        now = max(self.at, other.at)
        its = other.seconds_at(now, estimation)
        total = self.seconds_at(now, estimation) + its
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
    """A point at which to evaluate the surface; by default without prompts."""

    k: int
    log_batch: float
    log_context: float | None
    log_prompts: float = 0.0

    @classmethod
    def of(cls, reading: Reading) -> Point:
        """Return the point of a reading."""
        return cls(reading.k, log2(reading.batch_size), reading.log_context, reading.log_prompts)


class Place(Protocol):
    """A point of steps, from any source."""

    @property
    def k(self) -> int:
        """Drafted tokens."""
        ...

    @property
    def log_batch(self) -> float:
        """log2 of the requests in a step."""
        ...

    @property
    def log_context(self) -> float | None:
        """log2 of the tokens in the cache per request; None if unknown."""
        ...

    @property
    def log_prompts(self) -> float:
        """log of all tokens of a step over its tokens outside of prompts."""
        ...


_REFERENCE_CONTEXT = 10.0
"""log2 of 1,024 tokens, the reference context of the linear model."""
_CONTEXT_OCTAVES = 3.0
"""Length scale of the correlation over contexts. The policy has the one for batch sizes."""
_LOCAL_BATCH_OCTAVES = 0.5
"""Length scale over batch sizes of the part that other batch sizes do not share. It comes from how the tokens
of a step fill the engine's kernels, so its correlation over contexts is the same as elsewhere."""
_LEAST_SECONDS = 1e-6
_JITTER = 1e-9
"""Variance that keeps the equations solvable if two cells are at the same point."""


@dataclass(frozen=True)
class Evidence:
    """Measured log step times, with their prior covariance."""

    rows: Rows
    residuals: Array  # [n]: relative to the mean of the linear model
    covariance: Array  # [n, n]: of these, with errors of measurement
    estimation: Estimation

    def predict(self, points: Sequence[Place]) -> tuple[Array, Array]:
        """Return log step seconds at `points`: means [n] and covariance [n, n]."""
        asked = Rows.of(points)
        prior = covariance(asked, asked, self.estimation)
        means = asked.features @ MEANS
        if not len(self.residuals):
            return means, prior
        between = covariance(asked, self.rows, self.estimation)
        gain = np.linalg.solve(self.covariance, between.T).T
        return means + gain @ self.residuals, prior - gain @ between.T

    @property
    def log_density(self) -> float:
        """Log density of the measurements under the prior, up to a constant for each of them."""
        if not len(self.residuals):
            return 0.0
        _, log_determinant = np.linalg.slogdet(self.covariance)
        misfit = self.residuals @ np.linalg.solve(self.covariance, self.residuals)
        return -0.5 * float(misfit + log_determinant + len(self.residuals) * log(2 * pi))


def of_live_steps(
    known: Sequence[ObservedCell], estimation: Estimation, *, noise: float, now: float
) -> Evidence:
    """Return the evidence of live steps.

    noise: relative standard deviation of the mean step time of `NOISE_SECONDS`.
    now: unix seconds; older measurements count less.
    """
    rows = Rows.of(known)
    values = np.array([k.log_step for k in known]) - rows.features @ MEANS
    inner = covariance(rows, rows, estimation)
    inner.flat[:: len(known) + 1] += noise_variances(known, estimation, noise=noise, now=now)
    return Evidence(rows, values, inner, estimation)


def noise_variances(
    known: Sequence[ObservedCell], estimation: Estimation, *, noise: float, now: float
) -> Array:
    """Return the variance of the log step time of each cell."""
    seconds = np.array([k.seconds_at(now, estimation) for k in known])
    return np.asarray(noise_variance(noise, np.maximum(seconds, _LEAST_SECONDS)) + _JITTER)


def noise_variance(noise: float, seconds: _Seconds) -> _Seconds:
    """Return the variance of a log step time measured for `seconds`. noise: relative, of `NOISE_SECONDS`."""
    return noise**2 * NOISE_SECONDS / seconds


def _places(rows: Sequence[Place]) -> Places:
    k = np.array([float(r.k) for r in rows])
    context = [0.0 if r.log_context is None else r.log_context - _REFERENCE_CONTEXT for r in rows]
    return Places(
        k=k,
        batch=np.array([r.log_batch for r in rows]),
        context=np.array(context),
        prompts=np.array([r.log_prompts for r in rows]),
        depth=np.log1p(k),
    )


@dataclass(frozen=True)
class Rows:
    """Points with the values of the linear model's terms."""

    at: Places
    features: Array  # [n, features]

    @classmethod
    def of(cls, rows: Sequence[Place]) -> Rows:
        """Return the points in the same order."""
        at = _places(rows)
        return cls(at, values(at))


def covariance(a: Rows, b: Rows, estimation: Estimation) -> Array:
    """Return the prior covariance of the log step times at `a` with those at `b`."""
    batch = a.at.batch[:, None] - b.at.batch
    batch *= batch
    context = a.at.context[:, None] - b.at.context
    context *= context
    context *= 0.5 / _CONTEXT_OCTAVES**2
    same = a.at.k[:, None] == b.at.k
    near = _alike(batch, context, estimation.batch_octaves)
    local = _alike(batch, context, _LOCAL_BATCH_OCTAVES)
    residual: Array = (a.features * VARIANCES) @ b.features.T
    near *= estimation.level_deviation**2 + estimation.bend_deviation**2 * same
    residual += near
    local *= estimation.cell_deviation**2
    local += estimation.depth_deviation**2
    local *= same
    residual += local
    return residual


def _alike(batch: Array, context: Array, batch_octaves: float) -> Array:
    """Return the correlation of points, 0..1. batch: squared distances in octaves; context: scaled ones."""
    alike: Array = batch * (-0.5 / batch_octaves**2)
    alike -= context
    np.exp(alike, out=alike)
    return alike
