"""The choice of K for each batch bin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.policy import Choice, Policy
from outrider.tuning.state import BinState, TunerState, room

_LIKELY = 0.5
"""Minimum probability of keeping the latency limit for a K that may be probed."""


def keeping(belief: Posterior, policy: Policy) -> tuple[int, ...]:
    """The candidates that keep the latency limit, up to a risk of `latency_risk`."""
    return _likely(belief, policy, 1.0 - policy.safety.latency_risk)


def usable(belief: Posterior, policy: Policy) -> tuple[int, ...]:
    """The candidates of `keeping`; without any, the one with the shortest step."""
    return keeping(belief, policy) or (_quickest(belief, policy),)


def worth_trying(belief: Posterior, policy: Policy) -> tuple[int, ...]:
    """The candidates for probes: usable ones, and those that likely keep the latency limit."""
    return tuple(sorted({*usable(belief, policy), *_likely(belief, policy, _LIKELY)}))


def _likely(belief: Posterior, policy: Policy, probability: float) -> tuple[int, ...]:
    limit = policy.safety.inter_token_latency_limit
    if limit is None:
        return policy.candidates
    return tuple(k for k in policy.candidates if belief.keeps(k, limit) >= probability)


def _quickest(belief: Posterior, policy: Policy) -> int:
    return min(policy.candidates, key=lambda k: (belief.step_seconds(k), k))


def seen(state: TunerState) -> frozenset[int]:
    """The K that were measured at any batch size: no K is chosen on a prior alone.

    The K of a trusted step-time profile count too: `Posterior.mapped`.
    """
    return frozenset(k.k for k in state.known)


def challenger(
    bin_state: BinState, belief: Posterior, measured: frozenset[int], policy: Policy
) -> int | None:
    """The K that should replace the present one; None if it stays.

    A settled K is replaced for a gain above `min_gain` and `confidence_sigmas`. The smallest K replaces it if
    its estimated loss against that exceeds `safe_loss`, whatever the error. Before a bin is settled, a
    smaller gain is enough, and a smaller K needs none.
    """
    choice, allowed = policy.choice, usable(belief, policy)
    measured |= belief.mapped
    among = list(allowed) if choice.untried else [k for k in allowed if k in measured] or list(allowed)
    best = belief.best(among)
    if best == bin_state.k:
        return None
    if bin_state.k not in allowed:
        return best
    gain, error = belief.gain(best, bin_state.k)
    if choice.untried and best not in measured:
        needed = max(choice.min_gain, choice.untried_sigmas * error)
    elif bin_state.settled_at is not None:
        needed = max(choice.min_gain, choice.confidence_sigmas * error)
    else:
        needed = choice.caution_sigmas * error if best > bin_state.k else 0.0
    if gain > needed:
        return best
    floor = min(measured.intersection(allowed), default=bin_state.k)
    loses = belief.gain(floor, bin_state.k)[0] > policy.safety.safe_loss
    return floor if loses and bin_state.settled_at is not None and not choice.untried else None


def reverted(bin_state: BinState, belief: Posterior, policy: Policy, now: float) -> int | None:
    """The K before the last change, if the new one is slower and the old one keeps the latency limit."""
    old, since, choice = bin_state.replaced, bin_state.changed_at, policy.choice
    if old is None or since is None or bin_state.settled_at is None or now - since > 2 * choice.dwell_seconds:
        return None
    loss, error = belief.gain(old, bin_state.k)
    return old if loss > max(choice.rollback_loss, error) and old in usable(belief, policy) else None


def follow(
    state: TunerState, beliefs: Mapping[int, Posterior], current: int, policy: Policy, now: float
) -> TunerState:
    """The state with K of the other bins: visited ones by `challenger`, unseen ones by a careful estimate."""
    measured = seen(state)
    for index, belief in beliefs.items():
        bin_state = state.bins.get(index)
        if index == current:
            continue
        if bin_state is not None and bin_state.visited:
            k = challenger(bin_state, belief, measured, policy)
            if k is not None and _rested(bin_state, policy.choice, now):
                settled = bin_state.settled_at is not None
                state = state.with_bin(index, bin_state.changed_to(k, now, settled=settled))
        else:
            state = _guess(state, index, belief, measured, policy)
    return state


def _guess(
    state: TunerState, index: int, belief: Posterior, measured: frozenset[int], policy: Policy
) -> TunerState:
    """The state with K for an unseen batch bin, for its first burst.

    K never exceeds that of the static schedule, unless engines measured step times there.
    """
    before = state.bins.get(index) or BinState(policy.allowed(state.schedule.k_at(policy.bins[index])))
    guess = replace(before, foretold=belief.foretold)
    most = policy.candidates[-1] if belief.foretold else room(state.static, index, policy)
    measured |= belief.mapped
    among = [c for c in usable(belief, policy) if c in measured and c <= most]
    safest = belief.safest(among, 1.0) if among else before.k
    if safest != before.k:
        gain, error = belief.gain(safest, before.k)
        if gain > policy.choice.min_gain + (0.5 * error if safest > before.k else 0.0):
            guess = replace(guess, k=safest, decided=True)
    return state.with_bin(index, guess) if guess.decided and guess != before else state


def _rested(bin_state: BinState, choice: Choice, now: float) -> bool:
    return bin_state.changed_at is None or now - bin_state.changed_at >= choice.dwell_seconds
