"""The goodput of every K at every batch size, from step times and acceptance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log, log2, sqrt

import numpy as np

from outrider.tuning.estimate.model_averaging import Prediction, blend
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.estimate.surface import Place, Point, noise_variance
from outrider.tuning.observe.readings import Reading
from outrider.tuning.tick_context import TickContext

_BELIEVED = 0.5
"""Trust in a map above which what it measured counts as measured."""
_PROVED = 0.95
"""Trust above which a profile may promise more than the static schedule where engines never were.

It lies above the initial trust, so that live steps have to confirm the profile. The steps of a first tick
bring a profile of these engines to 0.98, and one of other engines below 0.9 (simulated engine)."""

_AT_ONCE = 256
"""Readings that are compared at a time, since a covariance takes memory with the square of them."""


def estimate(context: TickContext) -> TickContext:
    """Estimate every batch bin, if there are readings."""
    return context if context.readings.bin is None else replace(context, posteriors=posteriors(context))


def posteriors(context: TickContext) -> Mapping[int, Posterior]:
    """Estimates for every batch bin at the current context length, of steps without prompts.

    A prompt costs every K the same, so it does not change which one is best.
    """
    candidates = context.policy.candidates
    current = context.readings.bin
    length = None if current is None else mean_log_context(context.readings.of(current))
    batches = [_batch_size(index, context) for index in range(len(context.policy.bins))]
    found = predicted_steps(context, [Point(k, log2(batch), length) for batch in batches for k in candidates])
    profile = context.step_times
    mapped = profile.ks if profile is not None and found.trust > _BELIEVED else frozenset[int]()
    proved = profile if found.trust > _PROVED else None
    learning = context.state.learning
    tokens = learning.profile.tokens(candidates, learning.limited)
    acceptance_covariance = tokens.covariance
    posteriors = {}
    for index, batch in enumerate(batches):
        part = slice(index * len(candidates), (index + 1) * len(candidates))
        posteriors[index] = Posterior(
            candidates,
            batch,
            log(batch) + tokens.log_mean - found.means[part],
            found.covariance[part, part] + acceptance_covariance,
            found.means[part],
            mapped,
            proved is not None and proved.covers(batch),
            tokens,
            pause_weight=context.policy.choice.pause_weight,
        )
    return posteriors


def predicted_steps(context: TickContext, points: Sequence[Place]) -> Prediction:
    """Log step seconds at these points, from live steps and the profile."""
    known, estimation = context.state.learning.known, context.policy.estimation
    return blend(known, context.step_times, points, estimation, noise=context.noise, now=context.now)


def residuals(context: TickContext, rows: Sequence[Reading]) -> list[tuple[float, float, float]]:
    """Per reading: log step time over the estimate, and the variances of the estimate and the reading."""
    noise = context.noise
    found = []
    for first in range(0, len(rows), _AT_ONCE):
        part = rows[first : first + _AT_ONCE]
        expected = predicted_steps(context, [Point.of(row) for row in part])
        found += [
            (log(r.step_seconds) - float(m), max(float(v), 0.0), noise_variance(noise, r.seconds))
            for r, m, v in zip(part, expected.means, np.diag(expected.covariance), strict=True)
        ]
    return found


def _batch_size(index: int, context: TickContext) -> float:
    """The batch size at which a bin is judged: the current one, else the measured one, else its middle."""
    if context.readings.of(index):
        return context.readings.batch_size(index)
    known = [k for k in context.state.learning.known if k.bin == index]
    if known:
        weight = max(sum(k.seconds for k in known), 1e-9)
        return float(2.0 ** (sum(k.log_batch * k.seconds for k in known) / weight))
    low, high = context.policy.limits(index)
    high = high or context.policy.max_num_seqs
    return sqrt(low * high) if high > low else float(low)


def mean_log_context(rows: Sequence[Reading]) -> float | None:
    """log2 of the context of a request, weighted by engine time; None if no row has it."""
    contexts = [(r.log_context, r.seconds) for r in rows if r.log_context is not None]
    total = sum(seconds for _, seconds in contexts)
    return sum(c * seconds for c, seconds in contexts) / total if total > 0 else None
