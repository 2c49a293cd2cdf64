"""From a wish to a decision: the table, and the numbers that explain it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import exp, log, sqrt

from outrider.api.schedule import Schedule
from outrider.tuning.decision import Acceptance, BinEstimates, Decision, Estimate, Reference, Speedup, Wish
from outrider.tuning.policy import Policy
from outrider.tuning.view import View
from outrider.tuning.window import Window


def report(
    wish: Wish, view: View | None, *, before: Schedule, windows: Sequence[Window], policy: Policy
) -> Decision:
    """The decision that carries out a wish. `view`: None without measurements."""
    state = wish.state.composed(policy)
    batch_size = view.batch_size if view is not None else None
    return Decision(
        kind=wish.kind,
        reason=wish.reason,
        sentence=wish.sentence,
        schedule=state.schedule,
        changed=state.schedule != before,
        state=state,
        batch_size=batch_size,
        num_speculative_tokens=None if batch_size is None else state.schedule.k_at(max(1, round(batch_size))),
        expected_gain=wish.gain,
        measured_gain=None if view is None else _measured_gain(view),
        estimates={} if view is None else _estimates(view),
        acceptance=pooled_acceptance(windows),
        acceptance_collapsed=state.collapsed,
        speedup=None if view is None else _speedup(view, wish),
    )


def pooled_acceptance(windows: Sequence[Window]) -> Acceptance | None:
    """Over all pods by sums; None when nothing was drafted."""
    drafts = sum(w.drafts for w in windows)
    drafted = sum(w.draft_tokens for w in windows)
    accepted = sum(w.accepted_tokens for w in windows)
    if drafts <= 0 or drafted <= 0:
        return None
    positions = zip_longest(*(w.accepted_per_position for w in windows), fillvalue=0.0)
    return Acceptance(accepted / drafted, 1 + accepted / drafts, tuple(sum(p) / drafts for p in positions))


def _measured_gain(view: View) -> float | None:
    """Of the K in force over the one that it replaced; None until it was measured since."""
    bin_state = view.bin_state
    k, old, settled_at = bin_state.k, bin_state.replaced, bin_state.settled_at
    if old is None or settled_at is None or view.trial is not None:
        return None
    if not {k, old} <= view.scores.keys() or bin_state.measured[k].at <= settled_at:
        return None
    return view.scores[k].gain_over(view.scores[old])


def _estimates(view: View) -> dict[str, BinEstimates]:
    """Every visited bin, each at the mean batch size at which it was measured."""
    found = {}
    for index, bin_state in sorted(view.state.bins.items()):
        known = [m.aged(view.now, view.policy) for m in bin_state.measured.values()]
        seconds = sum(m.seconds for m in known)
        if seconds <= 0:
            continue
        batch_size = sum(m.batch_seconds for m in known) / seconds
        scores = bin_state.scores(batch_size, view.now, view.policy)
        rows = (Estimate(k, s.mean, s.error, s.seconds) for k, s in sorted(scores.items()))
        low, high = view.policy.limits(index)
        label = view.policy.label(index)
        settled = bin_state.settled_at is not None
        found[label] = BinEstimates(label, low, high, batch_size, settled, tuple(rows))
    return found


def _speedup(view: View, wish: Wish) -> Speedup | None:
    """The settled K against K=0, at the batch size of now; the interval by the delta method on the log."""
    k = wish.state.bins[view.bin].k
    if k not in view.scores or 0 not in view.scores:
        return None
    measured_at = min(view.bin_state.measured[k].at, view.bin_state.measured[0].at)
    mine, none = view.scores[k], view.scores[0]
    if k == 0 or none.mean <= 0 or mine.mean <= 0:
        return Speedup(1.0, 1.0, 1.0, Reference.PROBE, measured_at)
    error = 2 * sqrt((mine.error / mine.mean) ** 2 + (none.error / none.mean) ** 2)
    middle = log(mine.mean / none.mean)
    return Speedup(exp(middle), exp(middle - error), exp(middle + error), Reference.PROBE, measured_at)
