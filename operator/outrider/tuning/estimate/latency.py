"""Estimation of the tail of the gaps between outputs, for a tuner with a limit on latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log

from outrider.tuning.estimate.latency_percentile import SHARE, LatencyPercentile
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.observe.latencies import pooled
from outrider.tuning.observe.readings import Readings
from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState

_TICK = 0.05
"""Error of the log of a percentile of one tick."""
_OFF = (0.7, 1.4)
"""Bounds of the error of the ratio of steps with a prompt, as factors."""


def learn_tail(
    state: TunerState,
    windows: Sequence[Window],
    readings: Readings,
    beliefs: Mapping[int, Posterior],
    policy: Policy,
    now: float,
) -> TunerState:
    """Update the tail: compare the 90th percentile with that of steps which take their estimated time.

    So probes of another K, prompts, and batches of several bins do not count as tail. Without a limit on
    latency it does nothing.
    """
    if policy.safety.inter_token_latency_limit is None:
        return state
    tail = (state.tail or LatencyPercentile.prior(policy.safety)).aged(now, policy.safety)
    tail = _with_prompts(tail, windows, readings, beliefs, policy, now)
    told = pooled(window.latencies for window in windows)
    measured = None if told is None else told.quantile(SHARE)
    if measured is None or not readings.rows:
        return replace(state, tail=tail)
    low, middle, high = (_expected(readings, beliefs, tail, factor) for factor in (_OFF[0], 1.0, _OFF[1]))
    error = _TICK + high - low
    return replace(state, tail=tail.after(measured[0] - middle, measured[1] - middle, error))


def with_tail(beliefs: Mapping[int, Posterior], tail: LatencyPercentile | None) -> Mapping[int, Posterior]:
    """Return the estimates of every bin with the tail added."""
    return beliefs if tail is None else {index: replace(b, tail=tail) for index, b in beliefs.items()}


def _with_prompts(
    tail: LatencyPercentile,
    windows: Sequence[Window],
    readings: Readings,
    beliefs: Mapping[int, Posterior],
    policy: Policy,
    now: float,
) -> LatencyPercentile:
    """Update how often steps have a prompt, and how much longer they take than estimated for other steps."""
    written = sum(w.decode_tokens for w in windows)
    if written <= 0:
        return tail
    read = sum(w.first_tokens for w in windows)
    writing = sum(row.steps * beliefs[row.bin].step_seconds(row.k) for row in readings.rows)
    reading = max(0.0, sum(row.seconds for row in readings.rows) - writing)
    per_prompt = reading / read if read > 0 else tail.seconds
    return tail.with_prompts(read / written, per_prompt, now, policy.safety)


def _expected(
    readings: Readings, beliefs: Mapping[int, Posterior], tail: LatencyPercentile, factor: float
) -> float:
    """Return the log 90th percentile over this tick's request-steps. factor: on steps with a prompt."""
    steps = []
    for row in readings.rows:
        belief = beliefs[row.bin]
        seconds, share = belief.step_seconds(row.k), min(factor * tail.share(belief.tokens_of(row.k)), 1.0)
        steps += [(seconds, (1 - share) * row.requests), (seconds + tail.seconds, share * row.requests)]
    steps.sort()
    left = SHARE * sum(requests for _, requests in steps)
    at = 0
    while left > steps[at][1] and at < len(steps) - 1:
        left -= steps[at][1]
        at += 1
    return log(steps[at][0])
