"""The choice of K for each batch bin: which K may run, which replaces the present one."""

from __future__ import annotations

from dataclasses import replace

from outrider.tuning.estimate.collapse import first_position
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.policy import Choice, Policy
from outrider.tuning.state import BinState, TunerState, room
from outrider.tuning.tick_context import TickContext

_LIKELY = 0.5
"""Minimum probability of keeping the latency limit for a K that may be probed."""


def keeping(posterior: Posterior, policy: Policy) -> tuple[int, ...]:
    """The candidates that keep the latency limit, up to a risk of `latency_risk`."""
    return _likely(posterior, policy, 1.0 - policy.safety.latency_risk)


def usable(posterior: Posterior, policy: Policy) -> tuple[int, ...]:
    """The candidates of `keeping`; without any, the one with the shortest step."""
    return keeping(posterior, policy) or (quickest(posterior, policy),)


def worth_trying(posterior: Posterior, policy: Policy) -> tuple[int, ...]:
    """The candidates for probes: usable ones, and those that likely keep the latency limit."""
    return tuple(sorted({*usable(posterior, policy), *likely_keeping(posterior, policy)}))


def likely_keeping(posterior: Posterior, policy: Policy) -> tuple[int, ...]:
    """The candidates that keep the latency limit more likely than not."""
    return _likely(posterior, policy, _LIKELY)


def smaller(context: TickContext) -> tuple[int, ...]:
    """The candidates below the present K. Their steps are shorter, so no latency limit forbids them."""
    return tuple(k for k in context.policy.candidates if k < context.bin_state.k)


def _likely(posterior: Posterior, policy: Policy, probability: float) -> tuple[int, ...]:
    limit = policy.safety.inter_token_latency_limit
    if limit is None:
        return policy.candidates
    return tuple(k for k in policy.candidates if posterior.keeps(k, limit) >= probability)


def quickest(posterior: Posterior, policy: Policy) -> int:
    """The candidate with the shortest step."""
    return min(policy.candidates, key=lambda k: (posterior.step_seconds(k), k))


def without_failing_drafts(context: TickContext) -> int | None:
    """The smallest K, if drafts fail that did not before; None if they do not.

    The estimates do not matter: such drafts bring no tokens, and wrong answers may be the cause.
    """
    newest, smallest = first_position(context.readings), context.policy.candidates[0]
    if not context.state.learning.acceptance_collapsed or context.bin_state.k == smallest:
        return None
    fails = newest.drafted > 0 and newest.rate < context.policy.safety.acceptance_floor
    return smallest if fails else None


def measured_ks(state: TunerState) -> frozenset[int]:
    """The K that were measured at any batch size: no K is chosen on a prior alone.

    The K of a trusted step-time profile count too: `Posterior.mapped`.
    """
    return frozenset(cell.k for cell in state.learning.known)


def challenger(
    bin_state: BinState, posterior: Posterior, measured: frozenset[int], policy: Policy
) -> int | None:
    """The K that should replace the present one; None if it stays.

    A settled K is replaced for a gain above `min_gain` and `confidence_sigmas`. The smallest K replaces it if
    its estimated loss against that exceeds `safe_loss`, whatever the error. Before a bin is settled, a
    smaller gain is enough, and a smaller K needs none.
    """
    choice, allowed = policy.choice, usable(posterior, policy)
    measured |= posterior.mapped
    among = list(allowed) if choice.untried else [k for k in allowed if k in measured] or list(allowed)
    best = posterior.best(among)
    if best == bin_state.k:
        return None
    if bin_state.k not in allowed:
        return best
    gain, error = posterior.gain(best, bin_state.k)
    if choice.untried and best not in measured:
        needed = max(choice.min_gain, choice.untried_sigmas * error)
    elif bin_state.settled_at is not None:
        needed = max(choice.min_gain, choice.confidence_sigmas * error)
    else:
        needed = choice.caution_sigmas * error if best > bin_state.k else 0.0
    if gain > needed:
        return best
    floor = min(measured.intersection(allowed), default=bin_state.k)
    loses = posterior.gain(floor, bin_state.k)[0] > policy.safety.safe_loss
    return floor if loses and bin_state.settled_at is not None and not choice.untried else None


def reverted(bin_state: BinState, posterior: Posterior, policy: Policy, now: float) -> int | None:
    """The K before the last change, if the new one is slower and the old one keeps the latency limit."""
    old, since, choice = bin_state.replaced, bin_state.changed_at, policy.choice
    if old is None or since is None or bin_state.settled_at is None or now - since > 2 * choice.dwell_seconds:
        return None
    loss, error = posterior.gain(old, bin_state.k)
    return old if loss > max(choice.rollback_loss, error) and old in usable(posterior, policy) else None


def follow_other_bins(context: TickContext) -> TickContext:
    """Choose K of the other bins: of visited ones by `challenger`, of unseen ones by a careful estimate."""
    context = context.with_state(_with_queue(context))
    state, policy, now = context.state, context.policy, context.now
    measured = measured_ks(state)
    for index, posterior in context.posteriors.items():
        bin_state = state.bins.get(index)
        if index == context.bin:
            continue
        if bin_state is not None and bin_state.visited:
            k = challenger(bin_state, posterior, measured, policy)
            if k is not None and _rested(bin_state, policy.choice, now):
                settled = bin_state.settled_at is not None
                state = state.with_bin(index, bin_state.changed_to(k, now, settled=settled))
        else:
            state = _guess(state, index, posterior, measured, policy)
    return context.with_state(state)


def _with_queue(context: TickContext) -> TunerState:
    """The state with the time since when requests wait. A pod without this gauge changes nothing."""
    waiting, since = context.waiting, context.state.queued_since
    if waiting is None:
        return context.state
    started = context.now if since is None else since
    return replace(context.state, queued_since=started if waiting > 0 else None)


def _guess(
    state: TunerState, index: int, posterior: Posterior, measured: frozenset[int], policy: Policy
) -> TunerState:
    """The state with K for an unseen batch bin, for its first burst.

    K never exceeds that of the static schedule, unless engines measured step times there.
    """
    before = state.bins.get(index) or BinState(policy.allowed(state.schedule.k_at(policy.bins[index])))
    guess = replace(before, foretold=posterior.foretold)
    most = policy.candidates[-1] if posterior.foretold else room(state.static, index, policy)
    measured |= posterior.mapped
    allowed = usable(posterior, policy)
    among = [c for c in allowed if c in measured and c <= most]
    safest = posterior.safest(among, 1.0) if among else before.k
    if safest != before.k:
        gain, error = posterior.gain(safest, before.k)
        needed = policy.choice.min_gain + (0.5 * error if safest > before.k else 0.0)
        if gain > needed or before.k not in allowed:
            guess = replace(guess, k=safest, decided=True)
    return state.with_bin(index, guess) if guess.decided and guess != before else state


def _rested(bin_state: BinState, choice: Choice, now: float) -> bool:
    return bin_state.changed_at is None or now - bin_state.changed_at >= choice.dwell_seconds
