"""The estimates of every K at one batch size: log goodput, with uncertainty.

    G(B, K) = B x E[tokens | K] / T(B, K)        tokens per second of engine time

B: requests in a step. E: tokens that one request gains in a step (`acceptance.py`). T: seconds of
the step (`surface.py`). E and T are learnt apart. So log G = log B + log E - log T is
jointly normal over K, with the sum of their covariances. A K is chosen by its value

    V(B, K) = G(B, K) / T(B, K) ^ pause weight

which is the goodput itself where short pauses between outputs have no weight of their own.
Source: Liu et al. 2024, arXiv 2406.14066, which chooses K by the goodput of a batch: tokens that
stay, over the time of the step that verified them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log, sqrt

import numpy as np

from outrider.tuning.estimate.acceptance import Tokens
from outrider.tuning.estimate.features import Array
from outrider.tuning.estimate.followed import Followed
from outrider.tuning.estimate.latency_percentile import NONE, LatencyPercentile


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
    pause_weight: float = 0.0  # see `value`

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
        """log of the percentile of the seconds between two outputs of a request, and its error."""
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
        """log of the value of `k` over that of `over`, and its standard error."""
        return self._difference(self.value, self._value_covariance, k, over)

    def goodput_gain(self, k: int, over: int) -> tuple[float, float]:
        """log of the goodput of `k` over that of `over`, and its standard error."""
        return self._difference(self.log_goodput, self.covariance, k, over)

    def _difference(self, means: Array, c: Array, k: int, over: int) -> tuple[float, float]:
        i, j = self.candidates.index(k), self.candidates.index(over)
        return float(means[i] - means[j]), sqrt(max(float(c[i, i] + c[j, j] - 2 * c[i, j]), 0.0))

    @cached_property
    def value(self) -> Array:
        """[candidates]: what a K is chosen by, the log of V in this module's formula."""
        if self.pause_weight == 0.0:
            return self.log_goodput
        worth: Array = self.log_goodput - self.pause_weight * self.log_step
        return worth

    @cached_property
    def _value_covariance(self) -> Array:
        """[candidates, candidates]: of `value`. Step times count in goodput and in the pause."""
        if self.pause_weight == 0.0:
            return self.covariance
        more: Array = ((1.0 + self.pause_weight) ** 2 - 1.0) * self.of_steps
        return self.covariance + more

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
        if self.pause_weight != 0.0:
            found = (1.0 + self.pause_weight) ** 2 * found
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
        """The K with the highest mean value; of equals the smallest. At least one."""
        return max(among, key=lambda k: (float(self.value[self.candidates.index(k)]), -k))

    def safest(self, among: Sequence[int], sigmas: float) -> int:
        """The K with the highest gain over the smallest K, less `sigmas` standard errors of it."""
        floor = min(among)

        def bound(k: int) -> float:
            mean, error = self.gain(k, floor)
            return mean - sigmas * error

        return max(among, key=lambda k: (bound(k), -k))
