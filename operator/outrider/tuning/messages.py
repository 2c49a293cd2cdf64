"""The sentences for a change of the schedule: its rows, the numbers and the reason."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import groupby
from math import exp, expm1

from outrider.api.reasons import DecisionReason
from outrider.tuning.choose.choice import usable
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.policy import Policy, span
from outrider.tuning.state import NO_CHOICE
from outrider.tuning.tick_context import TickContext
from outrider_protocol.schedule import Schedule

_GUESSED = {False: "estimated from other batch sizes", True: "predicted by the step-time profile"}
_WHY = {
    DecisionReason.BETTER_K: "",
    DecisionReason.LIKELY_BETTER: ": likely better, within the error",
    DecisionReason.SMALLER_K: ": no measurable slowdown, fewer draft tokens",
}


def reason(posterior: Posterior, old: int, new: int, policy: Policy) -> DecisionReason:
    """The reason for a change to `new`. BETTER_K needs a gain that would also change a settled K."""
    if old not in usable(posterior, policy):
        return DecisionReason.LATENCY_LIMIT_EXCEEDED
    gain, error = posterior.gain(new, old)
    if gain > max(policy.choice.min_gain, policy.choice.confidence_sigmas * error):
        return DecisionReason.BETTER_K
    return DecisionReason.SMALLER_K if new < old else DecisionReason.LIKELY_BETTER


def change(posterior: Posterior, old: int, new: int, policy: Policy) -> str:
    """A phrase such as ``K 3 -> 1, 566 vs 506 tok/s (+12 % ± 3 %)``, with a reason if needed."""
    gain, error = posterior.goodput_gain(new, old)
    rates = f"{posterior.goodput(new):.0f} vs {posterior.goodput(old):.0f} tok/s"
    found, limit = reason(posterior, old, new, policy), policy.safety.inter_token_latency_limit
    why = _WHY.get(found, "") if gain >= 0 else ""
    if policy.choice.pause_weight:
        pauses = (f"{1000 * posterior.step_seconds(k):.3g}" for k in (old, new))
        why = f", pauses {' -> '.join(pauses)} ms{why}"
    if found is DecisionReason.LATENCY_LIMIT_EXCEEDED and limit is not None:
        why = f": K {old} takes {latency(posterior, old)}, above {1000 * limit:.0f} ms"
    return f"K {old} -> {new}, {rates} ({100 * expm1(gain):+.0f} % ± {100 * error:.0f} %){why}"


def latency(posterior: Posterior, k: int) -> str:
    """The percentile of the time between two outputs: ``31 ± 2 ms between two outputs (p90)``."""
    value, error = posterior.latency(k)
    percentile = f"p{100 * posterior.tail.quantile:.0f}"
    milliseconds = f"{1000 * exp(value):.0f} ± {1000 * exp(value) * error:.0f} ms"
    return f"{milliseconds} between two outputs ({percentile})"


def changed_rows(before: Schedule, context: TickContext, *, but: Set[int]) -> Iterator[str]:
    """A phrase for each range of batch sizes whose K differs between `before` and the schedule of the state.

    but: bins that are already explained.
    """
    policy, after = context.policy, context.state.schedule
    edges = {row.max_batch_size for row in (*before.rows, *after.rows) if row.max_batch_size is not None}
    uppers = sorted(edges.union(policy.bins))
    beyond = uppers[-1] + 1
    low = 1
    rows = (_Row.of(batch_size, before, context, but) for batch_size in (*uppers, beyond))
    for row, stretch in groupby(zip(rows, (*uppers, beyond), strict=True), key=lambda each: each[0]):
        high = list(stretch)[-1][1]
        if row.old != row.new and not row.explained:
            batches = span(low, None if high == beyond else high)
            yield f"batch {batches}: {row.phrase(context)}"
        low = high + 1


@dataclass(frozen=True, slots=True)
class _Row:
    """What changed at a batch size; equal for neighbouring ones with the same explanation."""

    old: int
    new: int
    chosen_in: int | None  # the bin of the choice; None for an estimate without a choice
    foretold: bool
    explained: bool

    @classmethod
    def of(cls, batch_size: int, before: Schedule, context: TickContext, but: Set[int]) -> _Row:
        index = context.policy.bin_of(batch_size)
        choice = context.state.bins.get(index, NO_CHOICE)
        old, new = before.k_at(batch_size), context.state.schedule.k_at(batch_size)
        chosen_in = index if choice.chosen else None
        return cls(old, new, chosen_in, choice.foretold and not choice.chosen, index in but)

    def phrase(self, context: TickContext) -> str:
        change_of_k = f"K {self.old} -> {self.new}"
        if self.chosen_in is None:
            return f"{change_of_k}, {_GUESSED[self.foretold]}"
        posterior = context.posteriors.get(self.chosen_in)
        return change_of_k if posterior is None else change(posterior, self.old, self.new, context.policy)
