"""Which K is worth a trial."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from outrider.tuning.estimate import Score
from outrider.tuning.policy import Policy
from outrider.tuning.state import BinState, TunerState

Scores = Mapping[int, Score]


def best(scores: Scores, policy: Policy, among: Collection[int] | None = None) -> int:
    """The K with the highest goodput; within `min_gain` of it the smallest. At least one score."""
    choice = [s for s in scores.values() if among is None or s.k in among]
    top = max(s.mean for s in choice)
    return min(s.k for s in choice if s.mean >= top * (1 - policy.min_gain))


def to_calibrate(bin_state: BinState, scores: Scores, taught: Collection[int], policy: Policy) -> int | None:
    """The next K to try in a new bin; None when the best is known well enough or the time is up.

    First every candidate once, the neighbours of the best so far before the others; then again
    those that the noise leaves in the race, the least measured first.
    """
    if bin_state.calibrated_seconds >= policy.calibration_seconds:
        return None
    leader = max(scores.values(), key=lambda s: s.mean)
    order = policy.candidates
    missing = [k for k in order if k not in scores and k not in taught]
    if missing:
        return min(missing, key=lambda k: (abs(order.index(k) - order.index(leader.k)), k))
    if bin_state.calibrated_seconds >= policy.refine_seconds:
        return None
    racing = [
        s for s in scores.values() if leader.mean - s.mean <= policy.eliminate_sigmas * s.error_with(leader)
    ]
    if len(racing) < 2 or leader.k == best(scores, policy) == min(s.k for s in racing):
        return None
    return max(racing, key=lambda s: (s.error / s.mean, -s.k)).k


def to_probe(bin_state: BinState, scores: Scores, policy: Policy) -> int | None:
    """The K that may be better than the one in force, most promising first; None when none may."""
    if policy.probe_share <= 0:
        return None
    unknown = [k for k in policy.candidates if k not in scores]
    if unknown:
        return min(unknown, key=lambda k: (abs(k - bin_state.k), k))
    hopes = {s.k: s.mean + policy.confidence_sigmas * s.error for s in scores.values() if s.k != bin_state.k}
    rival = max(hopes, key=lambda k: (hopes[k], -k), default=None)
    enough = scores[bin_state.k].mean * (1 + policy.min_gain)
    return rival if rival is not None and hopes[rival] > enough else None


def clear_rival(bin_state: BinState, scores: Scores, policy: Policy) -> int | None:
    """The best K that beats the one in force by `min_gain` and beyond noise; None when none does."""
    mine = scores.get(bin_state.k)
    if mine is None:
        return None
    clear = [
        s
        for s in scores.values()
        if s.gain_over(mine) >= policy.min_gain
        and s.mean - mine.mean >= policy.confidence_sigmas * s.error_with(mine)
    ]
    return max(clear, key=lambda s: (s.mean, -s.k)).k if clear else None


def taught_by_other_bins(state: TunerState, index: int, now: float, policy: Policy) -> frozenset[int]:
    """K that other bins speak against, since the advantage of long drafts falls with batch size.

    Those that lost clearly to a smaller K at smaller batches, or to a larger K at larger ones.
    """
    lost: set[int] = set()
    for other, bin_state in state.bins.items():
        scores = bin_state.scores(float(policy.bins[other]), now, policy)
        for mine in scores.values():
            for rival in scores.values():
                tells = other != index and (rival.k < mine.k if other < index else rival.k > mine.k)
                gap = rival.mean - mine.mean
                noise = policy.confidence_sigmas * mine.error_with(rival)
                if tells and gap > max(policy.taught_loss * rival.mean, noise):
                    lost.add(mine.k)
    return frozenset(lost)
