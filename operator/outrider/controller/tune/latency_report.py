"""Latency targets in the status: the condition `SLOKept`, `status.slo`, and what would help. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor, inf

from outrider.api.conditions import ConditionStatus, ConditionUpdate
from outrider.api.reasons import SLOReason
from outrider.api.status import LatencyStatus, SLOStatus
from outrider.api.tuning import TuningMode
from outrider.controller.tune.outcome import TickOutcome
from outrider.tuning.latency_targets import LatencyTarget, MeasuredLatency, RecentLatencies, judged
from outrider.tuning.observe.latencies import Latencies
from outrider.tuning.observe.window import Window

_PAUSE, _FIRST = "between two outputs", "to the first token"


@dataclass(frozen=True, slots=True)
class _Judgement:
    """One target and what the engines measured. measured: None without a histogram."""

    what: str
    target: LatencyTarget
    measured: MeasuredLatency | None
    broken: SLOReason

    @property
    def reason(self) -> SLOReason:
        """The reason of the condition if this were the only target."""
        found = self.measured
        if found is None:
            return SLOReason.NO_HISTOGRAM
        if found.kept is None:
            return SLOReason.BETWEEN_EDGES if found.count else SLOReason.TOO_FEW
        return SLOReason.KEPT if found.kept else self.broken

    def __str__(self) -> str:
        target = f"p{self.target.percentile} {self.what}"
        limit = f"limit {_spoken(self.target.limit)}"
        found = self.measured
        if found is None or not found.count:
            return f"{target} is not measured, {limit}"
        span = f"{_spoken(found.low)} to {_spoken(found.high)}"
        if found.high == inf:
            span = f"above {_spoken(found.low)}"
        elif found.low == 0.0:
            span = f"up to {_spoken(found.high)}"
        return f"{target} is {span}, {limit}"


_STATUS = {
    SLOReason.KEPT: ConditionStatus.TRUE,
    SLOReason.INTER_TOKEN_LATENCY: ConditionStatus.FALSE,
    SLOReason.TIME_TO_FIRST_TOKEN: ConditionStatus.FALSE,
}
_WORST_FIRST = (
    SLOReason.INTER_TOKEN_LATENCY,
    SLOReason.TIME_TO_FIRST_TOKEN,
    SLOReason.NO_HISTOGRAM,
    SLOReason.BETWEEN_EDGES,
    SLOReason.TOO_FEW,
    SLOReason.KEPT,
)


def slo_status(outcome: TickOutcome, recent: RecentLatencies) -> SLOStatus | None:
    """The targets with the measured percentiles; None without targets or ready pods."""
    found = {each.what: each for each in _judgements(outcome, recent)}
    if not found:
        return None
    return SLOStatus(
        inter_token_latency=_wire(found.get(_PAUSE)),
        time_to_first_token=_wire(found.get(_FIRST)),
        summary="; ".join(map(str, found.values())),
    )


def slo_kept(outcome: TickOutcome, recent: RecentLatencies) -> ConditionUpdate | None:
    """The condition; None without targets or ready pods."""
    found = list(_judgements(outcome, recent))
    if not found:
        return None
    reason = min((each.reason for each in found), key=_WORST_FIRST.index)
    sentences = [f"{'; '.join(map(str, found))}."]
    sentences += [help_ for each in found for help_ in _help(each, outcome)]
    return ConditionUpdate(_STATUS.get(reason, ConditionStatus.UNKNOWN), reason, " ".join(sentences))


def first_token_is_late(outcome: TickOutcome, slo: SLOStatus | None) -> bool:
    """Whether the time to the first token breaks its target while requests wait in the engines."""
    target = None if slo is None else slo.time_to_first_token
    return target is not None and target.kept is False and _waiting(outcome) >= 1.0


def _judgements(outcome: TickOutcome, recent: RecentLatencies) -> Iterator[_Judgement]:
    targets = outcome.model.targets
    if not outcome.model.pods:
        return
    if (target := targets.inter_token) is not None:
        measured = _with_estimate(_judged(recent, recent.inter_token, target), outcome)
        yield _Judgement(_PAUSE, target, measured, SLOReason.INTER_TOKEN_LATENCY)
    if (target := targets.first_token) is not None:
        measured = _judged(recent, recent.first_token, target)
        yield _Judgement(_FIRST, target, measured, SLOReason.TIME_TO_FIRST_TOKEN)


def _judged(
    recent: RecentLatencies, histogram: Latencies | None, target: LatencyTarget
) -> MeasuredLatency | None:
    """As `judged`. While no engine was measured, no histogram is missing."""
    return judged(histogram, target) if recent.measured else MeasuredLatency(0.0, inf, 0.0, None)


def _with_estimate(measured: MeasuredLatency | None, outcome: TickOutcome) -> MeasuredLatency | None:
    """Decide by the tuner's step times where percentile and limit lie in one bucket."""
    if measured is None or measured.kept is not None or not measured.count:
        return measured
    keeps = outcome.latency is not None and _k(outcome) in outcome.latency.keeping
    return MeasuredLatency(measured.low, measured.high, measured.count, kept=True) if keeps else measured


def _k(outcome: TickOutcome) -> int | None:
    """K in force at the present load; None if the load is unknown."""
    return None if outcome.latency is None else outcome.wanted.k_at_mean(outcome.latency.batch_size)


def _help(each: _Judgement, outcome: TickOutcome) -> Iterator[str]:
    found = each.measured
    match each.reason:
        case SLOReason.INTER_TOKEN_LATENCY:
            yield from _pause_help(outcome)
        case SLOReason.TIME_TO_FIRST_TOKEN:
            yield _first_token_help(outcome)
        case SLOReason.NO_HISTOGRAM:
            yield (
                f"The metrics source has no histogram of the time {each.what}. Keep the engines' series "
                "whose names end in _bucket."
            )
        case SLOReason.TOO_FEW:
            yield f"The p{each.target.percentile} {each.what} needs more requests."
        case SLOReason.BETWEEN_EDGES if found is not None:
            edges = [_spoken(edge) for edge in (found.low, found.high) if 0.0 < edge < inf]
            yield (
                "The engines' histogram cannot compare values inside one bucket. To compare, set the limit "
                f"to {' or '.join(edges)}."
            )


def _pause_help(outcome: TickOutcome) -> Iterator[str]:
    seen, k = outcome.latency, _k(outcome)
    if seen is None:
        yield "The tuner has no estimate of the step times yet."
        return
    if seen.keeping and k not in seen.keeping:
        listed = ", ".join(map(str, seen.keeping))
        yield f"K={k} runs; the tuner expects K={listed} to keep the limit. {_why_not_used(outcome)}"
        return
    if seen.keeping:
        yield (
            f"The tuner expects K={k} to keep the limit from now on. If this lasts, a pod is slow or prompts "
            "delay its steps: compare the pods, or lower max-num-batched-tokens."
        )
        return
    yield (
        f"At a batch of {seen.batch_size:.3g} requests no K keeps it; K={seen.quickest} has the shortest "
        f"steps, {_spoken(seen.seconds)}."
    )
    if seen.largest_batch >= 1.0:
        batch = floor(seen.largest_batch)
        yield (
            f"Up to {batch} requests per step a K keeps it. To keep it, add replicas, which "
            f"outrider_required_replicas counts, or set max-num-seqs: {batch}."
        )
    else:
        yield (
            f"One request alone takes {_spoken(seen.alone)}, so more replicas do not help. To keep it, give "
            "each replica faster or more GPUs, use a smaller model, or set a higher limit."
        )


def _why_not_used(outcome: TickOutcome) -> str:
    rule = outcome.permission
    if not rule.active:
        return rule.message
    if outcome.model.mode is not TuningMode.AUTO:
        return "Mode Observe changes nothing; to change K, set tuning.mode: Auto."
    return "The tuner changes K at a next tick."


def _first_token_help(outcome: TickOutcome) -> str:
    waiting = _waiting(outcome)
    if waiting >= 1.0:
        return (
            f"{waiting:.0f} requests wait for a place in a batch. To keep it, add replicas, which "
            "outrider_required_replicas counts, or raise max-num-seqs."
        )
    return (
        "No request waits, so prompts take this time, and more replicas may not help. To keep it, raise "
        "max-num-batched-tokens, enable prefix caching, send shorter prompts, or set a higher limit."
    )


def _waiting(outcome: TickOutcome) -> float:
    windows = [seen for seen in outcome.observed.observations if isinstance(seen, Window)]
    return sum(window.requests_waiting or 0.0 for window in windows)


def _wire(each: _Judgement | None) -> LatencyStatus | None:
    if each is None:
        return None
    found = each.measured
    measured = found is not None and found.count > 0
    return LatencyStatus(
        percentile=each.target.percentile,
        limit_seconds=each.target.limit,
        at_least_seconds=found.low if measured and found is not None else None,
        at_most_seconds=found.high if measured and found is not None and found.high < inf else None,
        kept=None if found is None else found.kept,
    )


def _spoken(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1.0 else f"{1000 * seconds:.3g} ms"
