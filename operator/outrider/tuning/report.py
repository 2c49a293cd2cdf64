"""From a wish to a decision: the schedule, and the numbers that explain it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from math import exp, expm1, sqrt

from outrider.api.reasons import DecisionReason
from outrider.api.schedule import Schedule
from outrider.tuning.decision import (
    Acceptance,
    BinEstimates,
    Decision,
    Estimate,
    Kind,
    Outlook,
    Proposal,
    Reference,
    Speedup,
    Structural,
)
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.messages import changed_rows
from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider.tuning.tick_context import TickContext

_MEASURED_SECONDS = 1.0
"""Engine time, after forgetting, from which on a K counts as measured."""


def report(
    wish: Proposal,
    view: TickContext | None,
    *,
    before: Schedule,
    windows: Sequence[Window],
    policy: Policy,
    in_force: Schedule | None = None,
) -> Decision:
    """The decision that carries out a wish.

    view: None without measurements. in_force: the schedule of the engines; None where a wish becomes it.
    """
    state = wish.state.composed(policy)
    wish = _explaining(replace(wish, state=state), before, {} if view is None else view.beliefs, policy)
    decision = replace(
        wish.decided(before=before),
        acceptance=pooled_acceptance(windows),
        acceptance_collapsed=state.collapsed >= 2,
    )
    if view is None:
        return decision
    view = view.with_state(state)
    batch_size = view.belief.batch_size
    return replace(
        decision,
        batch_size=batch_size,
        num_speculative_tokens=state.schedule.k_at_mean(batch_size),
        measured_gain=_measured_gain(view),
        estimates=_estimates(view),
        speedup=_speedup(view, in_force),
        structural=_structural(view),
        outlook=_outlook(view),
    )


def _explaining(
    wish: Proposal, before: Schedule, beliefs: Mapping[int, Posterior], policy: Policy
) -> Proposal:
    """With every row that changed, where the wish does not say so itself."""
    changed = changed_rows(before, wish.state, beliefs, policy, but=wish.explained)
    rows = "; ".join(row for row in changed if row != wish.sentence)
    if not rows:
        return wish
    if wish.kind is Kind.HOLD or (wish.kind is Kind.EXPLORE and wish.probe is not None):
        return replace(wish, kind=Kind.EXPLOIT, reason=DecisionReason.OTHER_BATCH_SIZES, sentence=rows)
    return replace(wish, sentence=f"{wish.sentence}; {rows}")


def pooled_acceptance(windows: Sequence[Window]) -> Acceptance | None:
    """Over all pods by sums; None when nothing was drafted."""
    drafts = sum(w.drafts for w in windows)
    drafted = sum(w.draft_tokens for w in windows)
    accepted = sum(w.accepted_tokens for w in windows)
    if drafts <= 0 or drafted <= 0:
        return None
    return Acceptance(accepted / drafted, 1 + accepted / drafts, _per_position(windows), drafts)


def _per_position(windows: Sequence[Window]) -> tuple[float, ...]:
    """Ratio of the drafts that reach a position whose token there was accepted."""
    counts = [pair for window in windows for pair in _position_counts(window)]
    accepted = [sum(column) for column in zip_longest(*(hits for hits, _ in counts), fillvalue=0.0)]
    drafted = [sum(column) for column in zip_longest(*(tried for _, tried in counts), fillvalue=0.0)]
    return tuple(hits / tried for hits, tried in zip(accepted, drafted, strict=False) if tried > 0)


def _position_counts(window: Window) -> list[tuple[Sequence[float], Sequence[float]]]:
    """Accepted and drafted tokens by position; stock counters know the drafts only, whatever their length."""
    if window.cells:
        return [(cell.accepted_per_position, cell.drafted_per_position) for cell in window.cells]
    accepted = window.accepted_per_position
    return [(accepted, (window.drafts,) * len(accepted))]


def _measured_gain(view: TickContext) -> float | None:
    """Gain of the K in force over the one that it replaced; None until it was measured since."""
    bin_state = view.bin_state
    if bin_state.replaced is None or bin_state.changed_at is None:
        return None
    if (
        _measured_at(view, bin_state.k) is None
        or (_measured_at(view, bin_state.k) or 0.0) <= bin_state.changed_at
    ):
        return None
    return expm1(view.belief.gain(bin_state.k, bin_state.replaced)[0])


def _measured_at(view: TickContext, k: int) -> float | None:
    """Unix seconds of the newest measurement of a K in this bin; None without one that counts."""
    estimation = view.policy.estimation
    known = [
        c
        for c in view.state.known
        if (c.bin, c.k) == (view.bin, k) and c.seconds_at(view.now, estimation) >= _MEASURED_SECONDS
    ]
    return max((c.at for c in known), default=None)


def _estimates(view: TickContext) -> dict[str, BinEstimates]:
    """Every visited bin, each at the current batch size or where it was measured; only K measured there."""
    found, estimation = {}, view.policy.estimation
    for index, bin_state in sorted(view.state.bins.items()):
        belief = view.beliefs[index]
        seconds = {
            k: sum(c.seconds_at(view.now, estimation) for c in view.state.known if (c.bin, c.k) == (index, k))
            for k in belief.candidates
        }
        rows = tuple(
            Estimate(k, belief.goodput(k), belief.goodput(k) * belief.error(k), spent)
            for k, spent in seconds.items()
            if spent > 0
        )
        if not bin_state.visited or not rows:
            continue
        low, high = view.policy.limits(index)
        label = view.policy.label(index)
        settled = bin_state.settled_at is not None
        found[label] = BinEstimates(label, low, high, belief.batch_size, settled, rows)
    return found


def _speedup(view: TickContext, in_force: Schedule | None) -> Speedup | None:
    """The K in force, or about to be, against no drafter at the current batch size.

    log ratio = log goodput(K) - log goodput(K=0) - log(1 + overhead of K=0); 95 % of a normal distribution.
    That is of the time in which tokens are written. To read prompts takes every launch the same time. So
    with q seconds of reading for each second of writing a ratio r becomes (r + q) / (1 + q).
    """
    k, policy = view.bin_state.k, view.policy
    if in_force is not None:
        k = policy.allowed(in_force.k_at_mean(view.belief.batch_size))
    if 0 not in policy.candidates:
        return None
    gain, error = view.belief.gain(k, 0) if k != 0 else (0.0, 0.0)
    gain, error = _followed_gain(view) or (gain, error)
    tax = view.tax
    middle = gain - tax.mean
    width = 1.96 * sqrt(error**2 + tax.variance)
    measured = _measured_at(view, 0)
    reference = Reference.PRIOR if measured is None else Reference.PROBE
    at = measured if measured is not None else (_measured_at(view, k) or view.now)
    if measured is not None and tax.measured_at is not None and tax.measured(policy.estimation):
        reference, at = Reference.CANARY, min(measured, tax.measured_at)
    q = _reading_over_writing(view)
    ratio, low, high = ((exp(x) + q) / (1.0 + q) for x in (middle, middle - width, middle + width))
    known = high / ratio - 1.0 <= policy.estimation.speedup_known
    return Speedup(ratio, low, high, reference, at, known)


def _followed_gain(view: TickContext) -> tuple[float, float] | None:
    """log of the goodput over K=0 of engines that choose K themselves, and its error; None without any."""
    followed = view.state.followed
    if followed is None or followed.bin != view.bin:
        return None
    return view.belief.followed_gain(followed, 0)


def _reading_over_writing(view: TickContext) -> float:
    """Engine time for prompts over that for steps without them, in this tick and bin."""
    rows = view.readings.of(view.bin)
    if not sum(row.prefill_tokens for row in rows):
        return 0.0
    writing = sum(row.steps * view.belief.step_seconds(row.k) for row in rows)
    return max(0.0, sum(row.seconds for row in rows) / writing - 1.0)


def _outlook(view: TickContext) -> Outlook:
    at = {k: _measured_at(view, k) for k in view.belief.candidates}
    ledger = view.state.ledger
    return Outlook(
        belief=view.belief,
        measured={k: moment for k, moment in at.items() if moment is not None},
        k0_duty=ledger.k0_duty / ledger.weight if ledger.weight > 0 else 0.0,
        tax=view.tax,
    )


def _structural(view: TickContext) -> Structural:
    policy, ledger, belief = view.policy, view.state.ledger, view.belief
    if 0 not in policy.candidates or max(policy.candidates) == 0:
        return Structural.KEEP
    tax = view.tax.mean
    best = belief.best(policy.candidates)
    gain, error = belief.gain(best, 0) if best != 0 else (0.0, 0.0)
    gain, error = max((gain, error), _followed_gain(view) or (0.0, 0.0))
    if gain - tax > max(policy.choice.min_gain, policy.choice.confidence_sigmas * error):
        return Structural.ON
    if (
        ledger.weight >= 0.5
        and ledger.k0_duty > policy.relaunch.structural_duty * ledger.weight
        and tax > policy.choice.min_gain
    ):
        return Structural.OFF
    return Structural.KEEP
