"""The conditions that a tick reports. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outrider.api.conditions import Condition, ConditionStatus, ConditionType, ConditionUpdate, reason_of
from outrider.api.reasons import ActuationReason, EffectiveReason, LaunchReason, MetricsReason, TuningReason
from outrider.api.status import Speedup
from outrider.api.tuning import TuningMode
from outrider.controller.tune.drafter_health import Answers, drafter_health
from outrider.controller.tune.engine_info import OtherVersion
from outrider.controller.tune.latency_report import slo_kept
from outrider.controller.tune.outcome import TickOutcome
from outrider.tuning.choose.choice import measured_ks
from outrider.tuning.decision import Acceptance, Decision
from outrider.tuning.latency_targets import RecentLatencies
from outrider.tuning.observe.window import Gap, GapReason

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN

_GAP_REASONS = {
    GapReason.NO_SERIES: MetricsReason.NO_SERIES,
    GapReason.STALE: MetricsReason.STALE,
    GapReason.COUNTER_RESET: MetricsReason.COUNTER_RESET,
    GapReason.CONTRADICTORY: MetricsReason.CONTRADICTORY,
    GapReason.UNREADABLE: MetricsReason.UNREADABLE,
}
"""TOO_SHORT is left out on purpose: its samples are fresh, and only too few since the last change."""
_NEVER_MEASURED = (
    " One pod without samples holds the schedule of the whole model. To change it, let the metrics source"
    " reach each pod named here, or delete the pod."
)
_LAUNCH_STATUS = {
    LaunchReason.NO_BETTER_LAUNCH: TRUE,
    LaunchReason.DRAFTER_IDLE: FALSE,
    LaunchReason.DRAFTER_WOULD_PAY: FALSE,
    LaunchReason.RELAUNCHING: UNKNOWN,
    LaunchReason.RELAUNCH_POSTPONED: FALSE,
    LaunchReason.RELAUNCH_ROLLED_BACK: FALSE,
    LaunchReason.CANARY_RUNNING: UNKNOWN,
    LaunchReason.NOT_COMPARED: UNKNOWN,
    LaunchReason.ADAPTIVE_UNAVAILABLE: TRUE,
    LaunchReason.DRAFTER_KEPT: TRUE,
}


def statements(
    outcome: TickOutcome,
    *,
    before: Sequence[Condition],
    latencies: RecentLatencies,
    acceptance: Acceptance | None,
    answers: Answers,
    speedup: Speedup | None,
) -> Iterator[ConditionUpdate]:
    """Every condition that applies.

    before: the conditions of the last report. latencies: the recent ones. acceptance and answers: those of
    the last minute.
    """
    last = {condition.type: condition for condition in before}
    found = (
        _tuning(outcome),
        _metrics(outcome, last.get(ConditionType.METRICS_AVAILABLE)),
        _actuation(outcome),
        drafter_health(outcome, acceptance, answers, last.get(ConditionType.DRAFTER_HEALTHY)),
        _effective(outcome, speedup, last.get(ConditionType.SPECULATION_EFFECTIVE)),
        _launch(outcome, last.get(ConditionType.LAUNCH_OPTIMAL)),
        slo_kept(outcome, latencies),
    )
    return (statement for statement in found if statement is not None)


def _tuning(outcome: TickOutcome) -> ConditionUpdate | None:
    rule, off = outcome.permission, outcome.model.mode is TuningMode.OFF
    if rule.reason in (TuningReason.TUNING, TuningReason.OBSERVING) and (off or not outcome.model.pods):
        return None
    if off and rule.reason in (TuningReason.PAUSED, TuningReason.SETTLING):
        return None
    changes = rule.active and outcome.model.mode is TuningMode.AUTO
    status = TRUE if changes else FALSE
    message = f"{rule.message} {_limit(outcome)}" if rule.active and outcome.observes else rule.message
    return ConditionUpdate(status, rule.reason, message)


def _limit(outcome: TickOutcome) -> str:
    """The limit of mode Observe: it starts no probe, so some K stay unmeasured."""
    measured = measured_ks(outcome.decision.state) if outcome.decision is not None else frozenset[int]()
    guessed = [k for k in outcome.model.policy.candidates if k not in measured]
    if not guessed:
        return "Each candidate K was measured."
    return (
        f"Mode Observe starts no probe, so these K have no measurement: {', '.join(map(str, guessed))}."
        " Their estimates are guesses."
    )


def _metrics(outcome: TickOutcome, last: Condition | None) -> ConditionUpdate | None:
    if outcome.model.mode is TuningMode.OFF or not outcome.model.pods:
        return None
    observed, error = outcome.observed, outcome.observed.error
    if error is not None:
        message = f"Outrider keeps the schedule: {error}. {error.action}"
        return ConditionUpdate(FALSE, error.reason, message)
    if not observed.observations:
        return _again(last)
    gaps = [seen for seen in observed.observations if isinstance(seen, Gap) and seen.reason in _GAP_REASONS]
    if gaps:
        message = "; ".join(f"{gap.pod}: {gap.detail or gap.reason}" for gap in gaps)
        reason = _GAP_REASONS[gaps[0].reason]
        remedy = _NEVER_MEASURED if reason is MetricsReason.NO_SERIES else ""
        return ConditionUpdate(FALSE, reason, f"Outrider keeps the schedule: {message}.{remedy}")
    pods = len(observed.observations)
    message = f"{pods} {'pod has' if pods == 1 else 'pods have'} fresh samples. {observed.note}"
    return ConditionUpdate(TRUE, MetricsReason.FRESH, message.rstrip())


def _again(last: Condition | None) -> ConditionUpdate | None:
    """The condition of the last report again; None without one, or with a reason of another version."""
    reason = None if last is None else reason_of(last.type, last.reason)
    return None if last is None or reason is None else ConditionUpdate(last.status, reason, last.message)


def _actuation(outcome: TickOutcome) -> ConditionUpdate | None:
    push, probe, launched = outcome.actuated.push, outcome.actuated.probe, outcome.actuated.launched
    if launched is not None:
        if launched.running == launched.pods:
            return ConditionUpdate(TRUE, ActuationReason.CONVERGED, f"{launched}.")
        message = f"{launched}. A rolling restart replaces the others."
        return ConditionUpdate(FALSE, ActuationReason.PARTIALLY_APPLIED, message)
    if push is None:
        return None
    if not push.failed:
        message = f"{push}." if probe is None or not probe.failed else f"{push}; {probe}."
        return ConditionUpdate(TRUE, ActuationReason.CONVERGED, message)
    if push.impossible is not None:
        reason = ActuationReason.LIVE_TUNING_IMPOSSIBLE
        advice = 'To end this, set tuning.mode: "Off".'
    elif push.unreachable:
        reason, advice = ActuationReason.ENGINE_UNREACHABLE, "Outrider retries at the next tick."
    else:
        reason, advice = ActuationReason.PARTIALLY_APPLIED, "Outrider retries at the next tick."
    return ConditionUpdate(FALSE, reason, f"{push}. {advice}")


def _effective(
    outcome: TickOutcome, speedup: Speedup | None, last: Condition | None
) -> ConditionUpdate | None:
    decision = outcome.decision
    if outcome.without_drafter:
        return None
    if decision is None:
        return None if outcome.model.mode is TuningMode.OFF else _again(last)
    k = _k_in_force(outcome, decision)
    if k == 0:
        limited = outcome.latency is not None and not any(outcome.latency.keeping)
        why = "keeps the target of the pause between outputs" if limited else "pays"
        message = f"K is 0, because no draft length {why} at this load."
        chosen = decision.num_speculative_tokens == 0
        return ConditionUpdate(FALSE, EffectiveReason.SOFT_OFF, message) if chosen else None
    if speedup is None or speedup.low is None or speedup.high is None:
        return None
    message = f"{speedup.ratio:.2f} times the goodput of K=0 (95 %: {speedup.low:.2f} to {speedup.high:.2f})."
    if speedup.low > 1:
        return ConditionUpdate(TRUE, EffectiveReason.FASTER, message)
    if speedup.high < 1:
        return ConditionUpdate(FALSE, EffectiveReason.SLOWER, message)
    return ConditionUpdate(UNKNOWN, EffectiveReason.WITHIN_NOISE, message)


def _k_in_force(outcome: TickOutcome, decision: Decision) -> int | None:
    """K at the present load after this tick's push; None if the load is unknown."""
    return None if decision.batch_size is None else outcome.wanted.k_at_mean(decision.batch_size)


def _launch(outcome: TickOutcome, last: Condition | None) -> ConditionUpdate | None:
    found, others = outcome.actuated.launch, outcome.engines.other_versions
    if others:
        return ConditionUpdate(FALSE, LaunchReason.VERSION_DIFFERS, _of_versions(others))
    if outcome.model.relaunching.silent or outcome.model.mode is TuningMode.OFF:
        return None
    if found is not None and found.error is not None:
        message = f"{found.verdict.sentence} The order failed, so Outrider retries: {found.error}."
        return ConditionUpdate(FALSE, LaunchReason.RELAUNCH_POSTPONED, message)
    if found is None or found.verdict.reason is None:
        return None if last is not None and last.reason == LaunchReason.VERSION_DIFFERS else _again(last)
    reason = found.verdict.reason
    return ConditionUpdate(_LAUNCH_STATUS[reason], reason, found.verdict.sentence)


def _of_versions(others: Sequence[OtherVersion]) -> str:
    """The first pod whose engine differs, the number of the others, and what to do."""
    first, more = others[0], len(others) - 1
    pods = f"pod {first.pod} runs" if not more else f"{len(others)} pods, {first.pod} among them, run"
    return (
        f"Outrider chose the flags and the way to change K for release {first.wanted}, because "
        f"spec.engine.version names it, but {pods} {first.version}. To change it, set "
        f"spec.engine.version to the release of the image, or take an image with {first.wanted}."
    )
