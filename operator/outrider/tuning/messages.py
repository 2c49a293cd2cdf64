"""The sentences for a change of the schedule: its rows, the numbers and the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import groupby
from math import exp, expm1

from outrider.api.reasons import DecisionReason
from outrider.api.schedule import Schedule
from outrider.tuning.choose.choice import usable
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.policy import Policy, span
from outrider.tuning.state import NO_CHOICE, TunerState

_GUESSED = {False: "estimated from other batch sizes", True: "predicted by the step-time profile"}
_WHY = {
    DecisionReason.BETTER_K: "",
    DecisionReason.LIKELY_BETTER: ": likely better, within the error",
    DecisionReason.SMALLER_K: ": no measurable slowdown, fewer draft tokens",
}


def reason(belief: Posterior, old: int, new: int, policy: Policy) -> DecisionReason:
    """The reason for a change to `new`. BETTER_K needs a gain that would also change a settled K."""
    if old not in usable(belief, policy):
        return DecisionReason.LATENCY_LIMIT_EXCEEDED
    gain, error = belief.gain(new, old)
    if gain > max(policy.choice.min_gain, policy.choice.confidence_sigmas * error):
        return DecisionReason.BETTER_K
    return DecisionReason.SMALLER_K if new < old else DecisionReason.LIKELY_BETTER


def change(belief: Posterior, old: int, new: int, policy: Policy) -> str:
    """A phrase such as ``K 3 -> 1, 566 vs 506 tok/s (+12 % ± 3 %)``, with a reason if needed."""
    gain, error = belief.gain(new, old)
    rates = f"{belief.goodput(new):.0f} vs {belief.goodput(old):.0f} tok/s"
    found, limit = reason(belief, old, new, policy), policy.safety.inter_token_latency_limit
    why = _WHY.get(found, "") if gain >= 0 else ""
    if found is DecisionReason.LATENCY_LIMIT_EXCEEDED and limit is not None:
        why = f": K {old} takes {latency(belief, old)} between two outputs (p90), above {1000 * limit:.0f} ms"
    return f"K {old} -> {new}, {rates} ({100 * expm1(gain):+.0f} % ± {100 * error:.0f} %){why}"


def latency(belief: Posterior, k: int) -> str:
    """The 90th percentile of the time between two outputs, such as ``31 ± 2 ms``."""
    value, error = belief.latency(k)
    return f"{1000 * exp(value):.0f} ± {1000 * exp(value) * error:.0f} ms"


def changed_rows(
    before: Schedule,
    state: TunerState,
    beliefs: Mapping[int, Posterior],
    policy: Policy,
    *,
    but: Set[int],
) -> Iterator[str]:
    """A phrase for each range of batch sizes whose K differs between `before` and the schedule of `state`.

    but: bins that are already explained.
    """

    def row(batch_size: int) -> tuple[int, int, int | str, bool]:
        index = policy.bin_of(batch_size)
        choice = state.bins.get(index, NO_CHOICE)
        where = index if choice.chosen else _GUESSED[choice.foretold]
        return before.k_at(batch_size), state.schedule.k_at(batch_size), where, index in but

    both = (*before.rows, *state.schedule.rows)
    edges = {each.max_batch_size for each in both if each.max_batch_size is not None}
    uppers = sorted(edges.union(policy.bins))
    beyond = uppers[-1] + 1
    low = 1
    for (old, new, where, explained), stretch in groupby((*uppers, beyond), key=row):
        high = list(stretch)[-1]
        if old != new and not explained:
            open_ended = high == beyond
            yield f"batch {span(low, None if open_ended else high)}: {_row(old, new, where, beliefs, policy)}"
        low = high + 1


def _row(old: int, new: int, where: int | str, beliefs: Mapping[int, Posterior], policy: Policy) -> str:
    """A phrase for one range. where: the bin of the choice, or the source of an estimate without a choice."""
    if isinstance(where, str):
        return f"K {old} -> {new}, {where}"
    belief = beliefs.get(where)
    return f"K {old} -> {new}" if belief is None else change(belief, old, new, policy)
