"""The update of the tail of the gaps between outputs, for a tuner with a limit on latency."""

from __future__ import annotations

from dataclasses import replace
from math import log

from outrider.tuning.estimate.latency_percentile import LatencyPercentile
from outrider.tuning.observe.latencies import pooled
from outrider.tuning.tick_context import TickContext

_TICK = 0.05
"""Error of the log of a percentile of one tick."""
_MOST = 1.4
"""Factor by which more steps may have a prompt than estimated."""


def learn_latency(context: TickContext) -> TickContext:
    """Update the tail: compare the percentile with that of steps which take their estimated time.

    So probes of another K, prompts, and batches of several bins do not count as tail. Without a limit on
    latency it does nothing.
    """
    state, safety = context.state, context.policy.safety
    if context.readings.bin is None:
        return context
    tail = state.learning.tail
    if tail is not None and tail.quantile != safety.inter_token_latency_quantile:
        tail = None
    if safety.inter_token_latency_limit is not None:
        tail = (tail or LatencyPercentile.prior(safety)).aged(context.now, safety)
        tail = _measured(_with_prompts(tail, context), context)
        context = context.with_state(replace(state, learning=replace(state.learning, tail=tail)))
    if tail is None:
        return context
    posteriors = {index: replace(each, tail=tail) for index, each in context.posteriors.items()}
    return replace(context, posteriors=posteriors)


def _measured(tail: LatencyPercentile, context: TickContext) -> LatencyPercentile:
    """The tail with this tick's histogram, if there is one.

    Where the percentile may be a step with a prompt, it says nothing of the tail of the other steps.
    """
    histogram = pooled(window.latencies for window in context.windows)
    measured = None if histogram is None else histogram.quantile(tail.quantile)
    if measured is None:
        return tail
    without, expected = (_expected(tail, context, factor) for factor in (0.0, _MOST))
    if expected - without > _TICK:
        return tail
    return tail.after(measured[0] - without, measured[1] - without, _TICK)


def _with_prompts(tail: LatencyPercentile, context: TickContext) -> LatencyPercentile:
    """The tail with how often steps have a prompt, and how much longer they take than other steps."""
    written = sum(w.decode_tokens for w in context.windows)
    if written <= 0:
        return tail
    rows = context.readings.rows
    prompts = sum(w.first_tokens for w in context.windows)
    writing = sum(row.steps * context.posteriors[row.bin].step_seconds(row.k) for row in rows)
    reading = max(0.0, sum(row.seconds for row in rows) - writing)
    per_prompt = reading / prompts if prompts > 0 else tail.seconds
    return tail.with_prompts(prompts / written, per_prompt, context.now, context.policy.safety)


def _expected(tail: LatencyPercentile, context: TickContext, factor: float) -> float:
    """Return the log percentile over this tick's request-steps. factor: on steps with a prompt."""
    steps = []
    for row in context.readings.rows:
        posterior = context.posteriors[row.bin]
        seconds = posterior.step_seconds(row.k)
        share = min(factor * tail.share(posterior.tokens_of(row.k)), 1.0)
        steps += [(seconds, (1 - share) * row.requests), (seconds + tail.seconds, share * row.requests)]
    steps.sort()
    left = tail.quantile * sum(requests for _, requests in steps)
    at = 0
    while left > steps[at][1] and at < len(steps) - 1:
        left -= steps[at][1]
        at += 1
    return log(steps[at][0])
