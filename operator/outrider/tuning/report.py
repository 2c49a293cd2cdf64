"""From a proposal to a decision: the schedule, and the numbers that explain it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from math import exp, expm1, hypot, log2

from outrider.api.reasons import DecisionReason
from outrider.tuning.choose import choice
from outrider.tuning.cost_model import cost_model_of
from outrider.tuning.decision import (
    Acceptance,
    BinEstimates,
    Decision,
    Estimate,
    Kind,
    LatencyOutlook,
    Outlook,
    Proposal,
    Reference,
    Speedup,
)
from outrider.tuning.estimate.contrast import Contrast, contrast
from outrider.tuning.estimate.goodput import predicted_steps
from outrider.tuning.estimate.surface import Point
from outrider.tuning.messages import changed_rows
from outrider.tuning.observe.readings import Reading
from outrider.tuning.observe.window import Window
from outrider.tuning.tick_context import TickContext
from outrider.tuning.without_drafter import drafting_gain, structural
from outrider_protocol.schedule import Schedule

_MEASURED_SECONDS = 1.0
"""Engine time, after forgetting, from which on a K counts as measured."""


def report(proposal: Proposal, context: TickContext, before: Schedule) -> Decision:
    """The decision that carries out a proposal. before: the schedule that was wanted until now."""
    state = proposal.state.composed(context.policy)
    context = context.with_state(state)
    proposal = _with_changed_rows(proposal, context, before)
    decision = Decision(
        proposal.kind,
        proposal.reason,
        proposal.sentence,
        state,
        before,
        expected_gain=proposal.gain,
        probe=proposal.probe,
        acceptance=pooled_acceptance(context.windows),
        acceptance_collapsed=state.learning.acceptance_collapsed,
        cost_model=partial(cost_model_of, context),
    )
    return decision if context.readings.bin is None else replace(decision, outlook=_outlook(context))


def _with_changed_rows(proposal: Proposal, context: TickContext, before: Schedule) -> Proposal:
    """The proposal with every row that changed, where its sentence does not say so already."""
    changed = changed_rows(before, context, but=proposal.explained)
    rows = "; ".join(row for row in changed if row != proposal.sentence)
    if not rows:
        return proposal
    if proposal.kind is Kind.HOLD or (proposal.kind is Kind.EXPLORE and proposal.probe is not None):
        return replace(proposal, kind=Kind.EXPLOIT, reason=DecisionReason.OTHER_BATCH_SIZES, sentence=rows)
    return replace(proposal, sentence=f"{proposal.sentence}; {rows}")


def pooled_acceptance(windows: Sequence[Window]) -> Acceptance | None:
    """Over all pods by sums; None when no draft was verified."""
    drafts = sum(w.drafts for w in windows)
    verified = sum(w.verified_tokens for w in windows)
    accepted = sum(w.accepted_tokens for w in windows)
    if drafts <= 0 or verified <= 0:
        return None
    return Acceptance(min(1.0, accepted / verified), 1 + accepted / drafts, _per_position(windows), drafts)


def _per_position(windows: Sequence[Window]) -> tuple[float, ...]:
    """Ratio of the drafts that reach a position whose token there was accepted."""
    counts = [pair for window in windows for pair in _position_counts(window)]
    accepted = [sum(column) for column in zip_longest(*(hits for hits, _ in counts), fillvalue=0.0)]
    verified = [sum(column) for column in zip_longest(*(tried for _, tried in counts), fillvalue=0.0)]
    return tuple(hits / tried for hits, tried in zip(accepted, verified, strict=False) if tried > 0)


def _position_counts(window: Window) -> list[tuple[Sequence[float], Sequence[float]]]:
    """Accepted and verified tokens by position; stock counters have the drafts only, of whatever length."""
    if window.cells:
        return [(cell.accepted_per_position, cell.verified_per_position) for cell in window.cells]
    accepted = window.accepted_per_position
    return [(accepted, (window.drafts,) * len(accepted))]


def _outlook(context: TickContext) -> Outlook:
    at = {k: _measured_at(context, k) for k in context.posterior.candidates}
    drafting, error = drafting_gain(context.state.fallback.ledger, context.overhead)
    return Outlook(
        posterior=context.posterior,
        measured={k: moment for k, moment in at.items() if moment is not None},
        drafting=drafting,
        drafting_error=error,
        overhead=context.overhead,
        structural=structural(context),
        estimates=_estimates(context),
        speedup=_speedup(context),
        measured_gain=_measured_gain(context),
        contrast=_contrast(context),
        latency=_latency(context),
    )


def _latency(context: TickContext) -> LatencyOutlook | None:
    """Estimate which batch sizes allow the limit; None without a limit.

    Batch bins are judged at the batch size where they were measured, from the smallest up to the first that
    breaks the limit. So a larger batch that seems to keep it by chance does not count.
    """
    policy, posterior = context.policy, context.posterior
    if policy.safety.inter_token_latency_limit is None:
        return None
    largest = 0.0
    for _, each in sorted(context.posteriors.items()):
        if not choice.likely_keeping(each, policy):
            break
        largest = max(largest, each.batch_size)
    quickest, smallest = choice.quickest(posterior, policy), context.posteriors[min(context.posteriors)]
    return LatencyOutlook(
        batch_size=posterior.batch_size,
        keeping=choice.keeping(posterior, policy),
        quickest=quickest,
        seconds=exp(posterior.latency(quickest)[0]),
        largest_batch=largest,
        alone=exp(smallest.latency(choice.quickest(smallest, policy))[0]),
    )


def _contrast(context: TickContext) -> Contrast | None:
    """The other launch against this one, on the requests of this tick."""
    ours, theirs = context.readings.rows, context.compared.rows
    if not ours or not theirs:
        return None
    rows = (*ours, *theirs)
    paces = context.state.learning.pods.values()
    between = sum(pace.mean**2 for pace in paces) / max(len(paces), 1)
    return contrast(ours, theirs, _curve(context, rows), between_pods=between)


def _curve(context: TickContext, rows: Sequence[Reading]) -> dict[float, float]:
    """Estimated goodput of this launch under its schedule, by the batch size of each row."""
    policy, tokens = context.policy, context.state.learning.profile.tokens(context.policy.candidates)
    points = [
        Point(
            policy.allowed(context.state.schedule.k_at_mean(row.batch_size)),
            log2(row.batch_size),
            row.log_context,
        )
        for row in rows
    ]
    steps = predicted_steps(context, points).means
    return {
        row.batch_size: row.batch_size
        * exp(tokens.log_mean[policy.candidates.index(point.k)] - float(log_step))
        for row, point, log_step in zip(rows, points, steps, strict=True)
    }


def _measured_gain(context: TickContext) -> float | None:
    """Gain of the K in force over the one that it replaced; None until it was measured since."""
    bin_state = context.bin_state
    if bin_state.replaced is None or bin_state.changed_at is None:
        return None
    measured_at = _measured_at(context, bin_state.k)
    if measured_at is None or measured_at <= bin_state.changed_at:
        return None
    return expm1(context.posterior.goodput_gain(bin_state.k, bin_state.replaced)[0])


def _measured_at(context: TickContext, k: int) -> float | None:
    """Unix seconds of the newest measurement of a K in this bin; None without one that counts."""
    moments = (
        cell.at
        for cell in context.state.learning.known
        if (cell.bin, cell.k) == (context.bin, k)
        and cell.seconds_at(context.now, context.policy.estimation) >= _MEASURED_SECONDS
    )
    return max(moments, default=None)


def _estimates(context: TickContext) -> dict[str, BinEstimates]:
    """Every visited bin, each at the current batch size or where it was measured; only K measured there."""
    found, learning, estimation = {}, context.state.learning, context.policy.estimation
    for index, bin_state in sorted(context.state.bins.items()):
        posterior = context.posteriors[index]
        seconds = {k: learning.seconds_of(index, k, context.now, estimation) for k in posterior.candidates}
        rows = tuple(
            Estimate(k, posterior.goodput(k), posterior.goodput(k) * posterior.error(k), spent)
            for k, spent in seconds.items()
            if spent > 0
        )
        if not bin_state.visited or not rows:
            continue
        low, high = context.policy.limits(index)
        label = context.policy.label(index)
        settled = bin_state.settled_at is not None
        found[label] = BinEstimates(label, low, high, posterior.batch_size, settled, rows)
    return found


def _speedup(context: TickContext) -> Speedup | None:
    """The K in force, or about to be, against no drafter at the current batch size.

    log ratio = log goodput(K) - log goodput(K=0) - log(1 + overhead of K=0); 95 % of a normal distribution.
    That is of the time in which tokens are written. To read prompts takes every launch the same time, but for
    the overhead in steps with K=0. For each second of writing these read for q0 seconds, and others for q. So
    a ratio r becomes (r + q + q0 / (1 + overhead)) / (1 + q + q0).
    """
    k, policy, posterior = context.bin_state.k, context.policy, context.posterior
    if context.in_force is not None:
        k = policy.allowed(context.in_force.k_at_mean(posterior.batch_size))
    if 0 not in policy.candidates:
        return None
    gain, error = _followed_gain(context) or posterior.goodput_gain(k, 0)
    overhead = context.overhead
    middle, idle = gain - overhead.mean, overhead.mean
    width, its_width = 1.96 * hypot(error, overhead.error), 1.96 * overhead.error
    measured = _measured_at(context, 0)
    reference = Reference.PRIOR if measured is None else Reference.PROBE
    at = measured if measured is not None else (_measured_at(context, k) or context.now)
    if measured is not None and overhead.measured_at is not None and overhead.measured(policy.estimation):
        reference, at = Reference.CANARY, min(measured, overhead.measured_at)
    q0, q = _reading_over_writing(context)
    ratio, low, high = (
        (exp(middle + sign * width) + q + q0 * exp(-idle + sign * its_width)) / (1.0 + q + q0)
        for sign in (0.0, -1.0, 1.0)
    )
    known = high / ratio - 1.0 <= policy.estimation.speedup_known
    return Speedup(ratio, low, high, reference, at, known)


def _followed_gain(context: TickContext) -> tuple[float, float] | None:
    """log of the goodput over K=0 of engines that choose K themselves, and its error; None without any."""
    followed = context.state.learning.followed
    if followed is None or followed.bin != context.bin:
        return None
    return context.posterior.followed_gain(followed, 0)


def _reading_over_writing(context: TickContext) -> tuple[float, float]:
    """Engine time for prompts, in steps with K=0 and in others, over that for all steps without them.

    It is of this tick and bin.
    """
    rows = context.readings.of(context.bin)
    if not sum(row.prefill_tokens for row in rows):
        return 0.0, 0.0
    writing = [row.steps * context.posterior.step_seconds(row.k) for row in rows]
    reading = [(row.k, row.seconds - seconds) for row, seconds in zip(rows, writing, strict=True)]
    idle = sum(seconds for k, seconds in reading if k == 0)
    drafting = sum(seconds for k, seconds in reading if k > 0)
    return max(0.0, idle) / sum(writing), max(0.0, drafting) / sum(writing)
