"""What is known of every K at one batch size: log goodput, with uncertainty.

    G(B, K) = B x E[tokens | K] / T(B, K)        tokens per second of engine time

B: requests in a step. E: tokens that one request gains in a step (`acceptance.py`). T: seconds of
the step (`surface.py`). E and T are learnt apart. So log G = log B + log E - log T is
jointly normal over K, with the sum of their covariances.
Source: Liu et al. 2024, arXiv 2406.14066, which chooses K by the goodput of a batch: tokens that
stay, over the time of the step that verified them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log, log2, sqrt

import numpy as np

from outrider.tuning.estimate.acceptance import Tokens
from outrider.tuning.estimate.features import Array
from outrider.tuning.estimate.followed import Followed
from outrider.tuning.estimate.latency_percentile import NONE, LatencyPercentile
from outrider.tuning.estimate.model_averaging import blend
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.estimate.surface import Point, noise_variance
from outrider.tuning.observe.readings import Reading, Readings
from outrider.tuning.policy import Estimation, Policy
from outrider.tuning.state import TunerState

_BELIEVED = 0.5
"""Trust in a map above which what it measured counts as measured."""
_PROVED = 0.95
"""Trust above which a profile may promise more than the static schedule where engines never were.

It lies above the initial trust, so that live steps have to confirm the profile. The steps of a first tick
bring a profile of these engines to 0.98, and one of other engines below 0.9 (simulated engine)."""

_AT_ONCE = 256
"""Readings that are compared at a time, since a covariance takes memory with the square of them."""


@dataclass(frozen=True)
class Posterior:
    """Jointly normal log goodputs of the candidates at one batch size."""

    candidates: tuple[int, ...]
    batch_size: float
    log_goodput: Array  # [candidates]
    covariance: Array  # [candidates, candidates]
    log_step: Array  # [candidates]
    mapped: frozenset[int] = frozenset()  # K that a trusted profile measured
    foretold: bool = False  # such a map has step times at this batch size
    tokens: Tokens | None = None  # what acceptance brings to goodput and covariance; None: known exactly
    tail: LatencyPercentile = NONE  # of the gaps between outputs

    def goodput(self, k: int) -> float:
        """Tokens per second of engine time."""
        return exp(self.log_goodput[self.candidates.index(k)])

    def error(self, k: int) -> float:
        """Relative standard error of the goodput."""
        row = self.candidates.index(k)
        return sqrt(max(float(self.covariance[row, row]), 0.0))

    def step_seconds(self, k: int) -> float:
        """Mean step time."""
        return exp(self.log_step[self.candidates.index(k)])

    def latency(self, k: int) -> tuple[float, float]:
        """log of the 90th percentile of the seconds between two outputs of a request, and its error."""
        return self.tail.percentile(*self._log_step(k), self.tokens_of(k))

    def keeps(self, k: int, limit: float) -> float:
        """How likely that percentile is within the limit, 0..1. limit: seconds."""
        return self.tail.keeps(limit, *self._log_step(k), self.tokens_of(k))

    def tokens_of(self, k: int) -> float:
        """That a step writes, over all requests."""
        row = self.candidates.index(k)
        return exp(self.log_goodput[row] + self.log_step[row])

    def log_tokens(self, k: int) -> float:
        """log of the tokens that one request gains in a step."""
        return log(self.tokens_of(k) / self.batch_size)

    def of_step_times_alone(self) -> Posterior:
        """The same where acceptance is known: what is left to measure are step times."""
        return replace(self, covariance=self.of_steps, tokens=None)

    def _log_step(self, k: int) -> tuple[float, float]:
        """With its variance."""
        row = self.candidates.index(k)
        return float(self.log_step[row]), max(float(self.of_steps[row, row]), 0.0)

    def gain(self, k: int, over: int) -> tuple[float, float]:
        """log of the goodput of `k` over that of `over`, and its standard error."""
        i, j = self.candidates.index(k), self.candidates.index(over)
        c = self.covariance
        return float(self.log_goodput[i] - self.log_goodput[j]), sqrt(
            max(float(c[i, i] + c[j, j] - 2 * c[i, j]), 0.0)
        )

    def followed_gain(self, followed: Followed, over: int) -> tuple[float, float] | None:
        """log of the goodput of steps whose K the engine chose over that of one fixed K, and its error.

        The error is that of the step times. Over K=0 no acceptance is estimated. None without steps.
        Source: the formulas of `followed.py`.
        """
        total, plain = sum(followed.steps), followed.tokens - followed.accepted
        if total <= 0 or plain <= 0 or self.candidates != followed.ks:
            return None
        seconds = np.array(followed.steps) * np.exp(self.log_step)
        mean = float(seconds.sum()) / total
        gained = log(followed.tokens / plain) - self.log_tokens(over)
        weights = seconds / seconds.sum()
        weights[self.candidates.index(over)] -= 1.0
        error = sqrt(max(float(weights @ self.of_steps @ weights), 0.0))
        return gained - log(mean / self.step_seconds(over)), error

    def told_apart(self, ks: Sequence[int], best: int, variances: Array, seconds: Array) -> Array:
        """[ks, n, ks]: what measuring the one takes from the variance of the other's gain over the K `best`.

        A step time is noisy, while acceptance of every position of the drafts is counted.
        variances: [n], of the log step time; seconds: [n], of engine time.
        """
        rows, row = [self.candidates.index(k) for k in ks], self.candidates.index(best)
        known = self.of_steps[rows]
        apart = known[:, rows] - known[:, row, None]
        own = known[range(len(rows)), rows]
        found: Array = (apart**2)[:, None] / (own[:, None] + variances)[:, :, None]
        if self.tokens is not None:
            less = self.tokens.learnt(ks, self._drafts(ks, seconds))
            slopes = self.tokens.slopes
            found += less @ ((slopes[rows] - slopes[row]) ** 2).T
        return found

    def after_measuring(self, k: int, variance: float, seconds: float) -> Posterior:
        """What will be known once `k` was measured for so long; means stay.

        variance: of the log step time; seconds: of engine time.
        """
        row, tokens = self.candidates.index(k), self.tokens
        known = self.of_steps[row]
        learnt: Array = np.outer(known, known) / (known[row] + variance)
        if tokens is not None:
            less = tokens.learnt([k], self._drafts([k], np.array([seconds])))[0, 0]
            learnt = learnt + (tokens.slopes * less) @ tokens.slopes.T
            tokens = tokens.after(less)
        return replace(self, covariance=self.covariance - learnt, tokens=tokens)

    def _drafts(self, ks: Sequence[int], seconds: Array) -> Array:
        """[ks, n]: how many drafts so many seconds of each K have."""
        steps: Array = np.array([[self.step_seconds(k)] for k in ks])
        return self.batch_size * seconds / steps

    @cached_property
    def of_steps(self) -> Array:
        """The part of the covariance that step times bring."""
        return self.covariance if self.tokens is None else self.covariance - self.tokens.covariance

    def best(self, among: Iterable[int]) -> int:
        """The K with the highest mean; of equals the smallest. At least one."""
        return max(among, key=lambda k: (float(self.log_goodput[self.candidates.index(k)]), -k))

    def safest(self, among: Sequence[int], sigmas: float) -> int:
        """The K with the highest gain over the smallest K, less `sigmas` standard errors of it."""
        floor = min(among)

        def bound(k: int) -> float:
            mean, error = self.gain(k, floor)
            return mean - sigmas * error

        return max(among, key=lambda k: (bound(k), -k))


def beliefs(
    state: TunerState,
    readings: Readings,
    policy: Policy,
    now: float,
    *,
    step_times: StepTimeProfile | None = None,
) -> Mapping[int, Posterior]:
    """Estimates for every batch bin at the current context, of steps that read no prompts.

    To read a prompt costs every K the same, so it does not change which one is best.
    """
    candidates, estimation = policy.candidates, policy.estimation
    rows = readings.of(readings.bin) if readings.bin is not None else ()
    context = mean_log_context(rows)
    batches = [_batch_size(index, state, readings, policy) for index in range(len(policy.bins))]
    points = [Point(k, log2(batch), context) for batch in batches for k in candidates]
    told = blend(state.known, step_times, points, estimation, noise=state.noise(estimation), now=now)
    mapped = step_times.ks if step_times is not None and told.trust > _BELIEVED else frozenset[int]()
    proved = step_times if told.trust > _PROVED else None
    tokens = state.profile.tokens(candidates)
    tokens_covariance = tokens.covariance
    found = {}
    for index, batch in enumerate(batches):
        part = slice(index * len(candidates), (index + 1) * len(candidates))
        found[index] = Posterior(
            candidates,
            batch,
            log(batch) + tokens.log_mean - told.means[part],
            told.covariance[part, part] + tokens_covariance,
            told.means[part],
            mapped,
            proved is not None and proved.covers(batch),
            tokens,
        )
    return found


def residuals(
    state: TunerState,
    rows: Sequence[Reading],
    estimation: Estimation,
    now: float,
    *,
    step_times: StepTimeProfile | None = None,
) -> list[tuple[float, float, float]]:
    """Per reading: log step time over what is known of it, and the variances of the known and the reading."""
    noise = state.noise(estimation)
    found = []
    for first in range(0, len(rows), _AT_ONCE):
        part = rows[first : first + _AT_ONCE]
        points = [Point.of(row) for row in part]
        told = blend(state.known, step_times, points, estimation, noise=noise, now=now)
        found += [
            (log(r.step_seconds) - float(m), max(float(v), 0.0), noise_variance(noise, r.seconds))
            for r, m, v in zip(part, told.means, np.diag(told.covariance), strict=True)
        ]
    return found


def _batch_size(index: int, state: TunerState, readings: Readings, policy: Policy) -> float:
    """The batch size at which a bin is judged: the current one, else the measured one, else its middle."""
    if readings.of(index):
        return readings.batch_size(index)
    known = [k for k in state.known if k.bin == index]
    if known:
        return float(
            2.0 ** (sum(k.log_batch * k.seconds for k in known) / max(sum(k.seconds for k in known), 1e-9))
        )
    low, high = policy.limits(index)
    return sqrt(low * (high or policy.max_num_seqs)) if (high or policy.max_num_seqs) > low else float(low)


def mean_log_context(rows: Sequence[Reading]) -> float | None:
    """log2 of the context of a request, weighted by engine time; None if no row has it."""
    contexts = [(r.log_context, r.seconds) for r in rows if r.log_context is not None]
    total = sum(seconds for _, seconds in contexts)
    return sum(c * seconds for c, seconds in contexts if c is not None) / total if total > 0 else None
