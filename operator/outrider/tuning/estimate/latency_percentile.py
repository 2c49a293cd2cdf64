"""A high percentile of the gaps between two outputs of a request, relative to the mean step.

A gap is a step time. Most steps compute no prompt and take about the mean T(B, K). Others take longer:

    log percentile(B, K) = log T(B, K) + tail                   while few of the steps have a prompt
                         = log (T(B, K) + seconds of a prompt)  from the quantile 1 - q of the steps on
    ratio of such steps = prompts per token x B x E[tokens | K]

Longer drafts need fewer steps for the same tokens, so a larger ratio of steps has a prompt. Where it passes
1 - q, a tenth for the 90th percentile, the percentile jumps. All of this depends on the traffic: the tuner
learns it at the K in force, and discounts it soon.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log, sqrt
from statistics import NormalDist

from outrider.tuning.bounded_types import Count, Log, Seconds, Share, UnixSeconds, Variance
from outrider.tuning.policy import Safety

_OF_PRIOR = NormalDist().inv_cdf(0.9)
"""Standard score of the quantile that the prior of the policy is about."""
_ERROR_OF_SHARE = 0.25
"""Relative error of the ratio of steps with a prompt: a step may have several, or a prompt several steps."""
_ERROR_OF_PROMPTS = 0.25
"""Error of the log of the seconds of a step with a prompt, because prompts differ."""
_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class LatencyPercentile:
    """Estimate of the tail."""

    mean: Log
    variance: Variance
    prompts: Count = 0.0  # per output token
    seconds: Seconds = 0.0  # by which a step with a prompt is longer
    at: UnixSeconds | None = None  # of the newest measurement; None: a prior
    quantile: Share = 0.9  # of the gaps

    @classmethod
    def prior(cls, safety: Safety) -> LatencyPercentile:
        """Return the estimate before any measurement, by a normal distribution of the log gaps."""
        quantile = safety.inter_token_latency_quantile
        score = NormalDist().inv_cdf(quantile) / _OF_PRIOR if quantile != 0.9 else 1.0
        return cls(score * safety.latency_tail, safety.latency_tail_deviation**2, quantile=quantile)

    def aged(self, now: float, safety: Safety) -> LatencyPercentile:
        """Return the estimate with the error that its age gives."""
        prior = safety.latency_tail_deviation**2
        variance = prior + (min(self.variance, prior) - prior) * self._left(now, safety)
        return self if self.at is None else replace(self, variance=variance)

    def with_prompts(self, per_token: float, seconds: float, now: float, safety: Safety) -> LatencyPercentile:
        """Add the prompts of one tick; older ones count less."""
        left = self._left(now, safety)
        return replace(
            self,
            prompts=left * self.prompts + (1 - left) * per_token,
            seconds=left * self.seconds + (1 - left) * seconds,
            at=now,
        )

    def after(self, low: float, high: float, error: float) -> LatencyPercentile:
        """Update by a measurement that gives two bounds, which have an error.

        An estimate outside moves towards the nearer bound (Kalman). Inside, close bounds reduce its error.
        """
        nearest = min(max(self.mean, low), high)
        if nearest == self.mean:
            within = (high - low) ** 2 / 12 + error**2
            return replace(self, variance=min(self.variance, within))
        gain = self.variance / (self.variance + error**2)
        mean = self.mean + gain * (nearest - self.mean)
        return replace(self, mean=mean, variance=(1 - gain) * self.variance)

    def share(self, tokens: float) -> float:
        """Return the ratio of steps with a prompt, 0..1. tokens: output tokens of a step."""
        return min(self.prompts * tokens, 1.0)

    def percentile(self, log_step: float, variance: float, tokens: float) -> tuple[float, float]:
        """Return the log of the percentile in seconds, and its error."""
        crowded = self._crowded(tokens) > 0.5
        found = (self._slow if crowded else self._usual)(log_step, variance)
        return found.mean, found.stdev

    def keeps(self, limit: float, log_step: float, variance: float, tokens: float) -> float:
        """Return the probability that the percentile is within a limit.

        limit: seconds. log_step, variance: of the mean step. tokens: output tokens of a step.
        """
        crowded, at = self._crowded(tokens), log(limit)
        usual, slow = self._usual(log_step, variance), self._slow(log_step, variance)
        return (1 - crowded) * usual.cdf(at) + crowded * min(slow.cdf(at), usual.cdf(at))

    def _crowded(self, tokens: float) -> float:
        """Return the probability that so many steps have a prompt that the percentile is one of them."""
        share = log(max(self.share(tokens), _LEAST))
        return NormalDist(share, _ERROR_OF_SHARE).cdf(share * 2 - log(1 - self.quantile))

    def _usual(self, log_step: float, variance: float) -> NormalDist:
        return NormalDist(log_step + self.mean, sqrt(variance + self.variance + _LEAST))

    def _slow(self, log_step: float, variance: float) -> NormalDist:
        return NormalDist(log(exp(log_step) + self.seconds), sqrt(variance + _ERROR_OF_PROMPTS**2))

    def _left(self, now: float, safety: Safety) -> float:
        return (
            0.0 if self.at is None else float(0.5 ** (max(0.0, now - self.at) / safety.latency_tail_seconds))
        )


NONE = LatencyPercentile(0.0, 0.0)
"""No tail: every gap equals the mean step."""
