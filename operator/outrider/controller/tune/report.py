"""The tuning loop's part of the status, from the outcome of a tick. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from math import exp

from outrider.api.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    ConditionUpdate,
    Manager,
    StatusModel,
    conditions_of,
    conditions_owned_by,
)
from outrider.api.reasons import DecisionReason, EventReason, LaunchReason, TuningReason
from outrider.api.speculation_fields import Verification
from outrider.api.status import (
    AppliedRow,
    DecisionRecord,
    DrafterGain,
    LaunchGain,
    SLOStatus,
    SpeculationState,
    SpeculationStatus,
    Speedup,
    SpeedupReference,
    Status,
)
from outrider.controller.fleet import TunedModel
from outrider.controller.tune.conditions import statements
from outrider.controller.tune.drafter_health import Answers
from outrider.controller.tune.latency_report import slo_status
from outrider.controller.tune.outcome import TickOutcome
from outrider.controller.tune.step_time_profiles import describe
from outrider.tuning.decision import Acceptance, Decision, Kind
from outrider.tuning.latency_targets import RecentLatencies
from outrider.tuning.observe.window import Window
from outrider.tuning.relaunch.state import LaunchGain as MeasuredGain
from outrider.tuning.report import pooled_acceptance

KEPT_DECISIONS = 5
_ACCEPTANCE_SPAN_SECONDS = 60.0

_SPEC = "spec"
"""Name in a record for the launch configuration of the spec."""

_CHOICES = (
    DecisionReason.BETTER_K,
    DecisionReason.LIKELY_BETTER,
    DecisionReason.SMALLER_K,
    DecisionReason.LATENCY_LIMIT_EXCEEDED,
    DecisionReason.CALIBRATED,
)


_NOTHING_SERVES = SpeculationStatus(state=SpeculationState.UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class TunerReport:
    """The tuning loop's part of the status, and what the next report continues from."""

    speculation: SpeculationStatus = _NOTHING_SERVES
    conditions: tuple[Condition, ...] = ()
    decisions: tuple[DecisionRecord, ...] = ()
    speedup: Speedup | None = None
    """The last measured one, also while the pods have no drafter."""
    windows: tuple[Window, ...] = field(default=(), repr=False)
    """Those of the last minute."""
    slo: SLOStatus | None = None
    """Latency targets; None without any."""
    latencies: RecentLatencies = field(default_factory=RecentLatencies, repr=False)

    @classmethod
    def continued(cls, status: Status) -> TunerReport:
        """The report in the status of an earlier process."""
        own = tuple(c for c in status.conditions if c.type in conditions_owned_by(Manager.TUNER))
        found = cls(conditions=own, decisions=tuple(status.decisions), slo=status.slo)
        if status.speculation is None:
            return found
        return replace(found, speculation=status.speculation, speedup=status.speculation.speedup)

    def condition(self, kind: ConditionType) -> Condition | None:
        """One condition; None if it is absent."""
        return next((condition for condition in self.conditions if condition.type == kind), None)

    def to_wire(self) -> dict[str, object]:
        """The wire form for server-side apply, with exactly the fields that the tuning loop owns."""
        dump = partial(StatusModel.model_dump, by_alias=True, exclude_none=True, mode="json")
        return {
            "conditions": [dump(condition) for condition in self.conditions],
            "speculation": dump(self.speculation),
            "decisions": [dump(record) for record in self.decisions],
            **({} if self.slo is None else {"slo": dump(self.slo)}),
        }


def report(outcome: TickOutcome, before: TunerReport) -> TunerReport:
    """The report after one tick."""
    windows = _recent(before.windows, outcome)
    acceptance = pooled_acceptance(windows)
    known = before if outcome.reset is None else _without_measurements(before)
    speedup = (_speedup(outcome.decision) or known.speedup) if outcome.model.pods else None
    latencies = before.latencies.after(
        (seen for seen in outcome.observed.observations if isinstance(seen, Window)), outcome.now
    )
    said = statements(
        outcome,
        before=known.conditions,
        latencies=latencies,
        acceptance=acceptance,
        answers=Answers.of(windows),
        speedup=speedup,
    )
    return TunerReport(
        speculation=_speculation(outcome, acceptance, speedup, known.speculation),
        conditions=_conditions(said, known, outcome.model, outcome.now),
        decisions=_decisions(outcome, known.decisions),
        speedup=speedup,
        windows=windows,
        slo=slo_status(outcome, latencies),
        latencies=latencies,
    )


def _without_measurements(report: TunerReport) -> TunerReport:
    """The report without results of dropped measurements. Past decisions remain."""
    measured = (ConditionType.SPECULATION_EFFECTIVE, ConditionType.DRAFTER_HEALTHY)
    kept = (c for c in report.conditions if c.type not in measured)
    return replace(report, conditions=tuple(kept), speedup=None)


def failing(model: TunedModel, error: Exception, last: TunerReport, *, now: float) -> TunerReport:
    """The report of a model whose ticks fail: the last one with the error. now: unix seconds."""
    message = (
        f"Outrider does not tune this model, because its ticks fail: {type(error).__name__}: {error}. "
        "Engines serve, with the static schedule once the last push expires. The operator's log has the "
        "traceback."
    )
    update = ConditionUpdate(ConditionStatus.FALSE, TuningReason.INTERNAL_ERROR, message)
    others = tuple(c for c in last.conditions if c.type != ConditionType.TUNING_ACTIVE)
    return replace(last, conditions=(*_conditions([update], last, model, now), *others))


def _conditions(
    updates: Iterable[ConditionUpdate], last: TunerReport, model: TunedModel, now: float
) -> tuple[Condition, ...]:
    return conditions_of(updates, before=last.conditions, generation=model.generation, now=_time(now))


def _speculation(
    outcome: TickOutcome, acceptance: Acceptance | None, speedup: Speedup | None, known: SpeculationStatus
) -> SpeculationStatus:
    engines, push = outcome.engines, outcome.actuated.push
    in_force = outcome.actuated.in_force
    table = None if outcome.without_drafter or in_force is None else in_force.merged()
    return SpeculationStatus(
        state=_state(outcome),
        simulated=", ".join(engines.simulated) or None,
        cuda_graphs=", ".join(engines.cuda_graphs) or None,
        idle_drafter="; ".join(engines.idle_drafter) or None,
        step_time_profile=describe(engines.profile, engines.differing),
        fast_loop=outcome.actuated.fast_loop,
        epoch=push.epoch if push else None,
        schedule=[AppliedRow.model_validate(row) for row in table.to_wire()] if table else None,
        schedule_summary=str(table) if table else None,
        applied_replicas=outcome.actuated.replicas,
        acceptance_rate=acceptance.rate if acceptance else None,
        acceptance_length=acceptance.length if acceptance else None,
        per_position_acceptance=list(acceptance.per_position) if acceptance else None,
        speedup=None if outcome.without_drafter else speedup,
        verification=_verification(outcome),
        verification_gain=_verification_gain(outcome, known),
        drafter_gain=_drafter_gain(outcome, known),
    )


def _verification(outcome: TickOutcome) -> str | None:
    spec_decides = not outcome.model.relaunching.compares and not outcome.adaptive
    if spec_decides or not outcome.model.drafting_pods:
        return None
    return str(Verification.ADAPTIVE if outcome.adaptive else Verification.FIXED)


def _verification_gain(outcome: TickOutcome, known: SpeculationStatus) -> LaunchGain | None:
    if not outcome.model.relaunching.compares:
        return None
    if outcome.actuated.launch is None:
        return known.verification_gain
    gain = outcome.actuated.launch.verdict.state.verification
    if gain is None:
        return None
    return _gain(gain)


def _drafter_gain(outcome: TickOutcome, known: SpeculationStatus) -> DrafterGain | None:
    if outcome.actuated.launch is None:
        return known.drafter_gain
    state = outcome.actuated.launch.verdict.state
    gain = state.drafter
    if gain is None:
        return None
    return DrafterGain(**_gain(gain).model_dump(), drafter=state.drafter_name)


def _gain(found: MeasuredGain) -> LaunchGain:
    return LaunchGain(
        ratio=exp(found.mean), low=exp(found.low), high=exp(found.high), measured_at=_time(found.measured_at)
    )


def _state(outcome: TickOutcome) -> SpeculationState:
    table = outcome.actuated.in_force
    if outcome.without_drafter:
        return SpeculationState.HARD_OFF
    if table is None or not outcome.actuated.replicas:
        return SpeculationState.UNAVAILABLE
    return SpeculationState.ACTIVE if table.values() != {0} else SpeculationState.SOFT_OFF


def _decisions(outcome: TickOutcome, kept: tuple[DecisionRecord, ...]) -> tuple[DecisionRecord, ...]:
    """The newest records: with a relaunch that begins, a reset or another schedule, and measured gains."""
    decision, before = outcome.decision, outcome.before.merged()
    kept = _with_relaunch(outcome, kept)
    if outcome.reset is not None:
        record = _record(outcome, before, outcome.wanted.merged(), EventReason.TUNER_RESET, outcome.reset)
        return (record, *kept)[:KEPT_DECISIONS]
    if decision is None or outcome.relaunches_tables:
        return kept
    if not outcome.observes:  # in mode Observe nothing changed, so no gain was measured
        kept = _with_gain(kept, _CHOICES, decision.measured_gain)
    if not decision.changed or decision.kind is Kind.HOLD:
        return kept
    record = _record(outcome, before, decision.schedule.merged(), decision.reason, decision.sentence)
    more = {"expected_gain": _as_ratio(decision.expected_gain), "would": outcome.observes or None}
    return (record.model_copy(update=more), *kept)[:KEPT_DECISIONS]


def _with_relaunch(outcome: TickOutcome, kept: tuple[DecisionRecord, ...]) -> tuple[DecisionRecord, ...]:
    found = outcome.actuated.launch
    if found is None or found.error is not None:
        return kept
    verdict = found.verdict
    kept = _with_gain(kept, (LaunchReason.RELAUNCHING,), verdict.measured_gain)
    launch, reason = verdict.state.order.launch, verdict.reason or LaunchReason.RELAUNCHING
    if launch == found.before.launch:
        return kept
    record = _record(
        outcome, str(found.before.launch) or _SPEC, str(launch) or _SPEC, reason, verdict.sentence
    )
    more = {"expected_gain": _as_ratio(verdict.expected_gain)}
    return (record.model_copy(update=more), *kept)[:KEPT_DECISIONS]


def _record(outcome: TickOutcome, before: object, after: object, reason: str, message: str) -> DecisionRecord:
    return DecisionRecord(
        time=_time(outcome.now), from_=str(before), to=str(after), reason=reason, message=message
    )


def _with_gain(
    kept: tuple[DecisionRecord, ...], reasons: tuple[str, ...], gain: float | None
) -> tuple[DecisionRecord, ...]:
    """The records with a measured gain at the newest one of these reasons, unless it has one."""
    chosen = next((index for index, record in enumerate(kept) if record.reason in reasons), None)
    if gain is None or chosen is None or kept[chosen].measured_gain is not None:
        return kept
    record = kept[chosen].model_copy(update={"measured_gain": _as_ratio(gain)})
    return (*kept[:chosen], record, *kept[chosen + 1 :])


def _as_ratio(gain: float | None) -> float | None:
    return None if gain is None else 1 + gain


def _speedup(decision: Decision | None) -> Speedup | None:
    measured = decision.speedup if decision else None
    if measured is None:
        return None
    return Speedup(
        ratio=measured.ratio,
        low=measured.low,
        high=measured.high,
        summary=f"{measured.ratio:.2f} ±{(measured.high - measured.low) / 2:.2f}" if measured.known else None,
        reference=SpeedupReference(measured.reference.value),
        measured_at=_time(measured.measured_at),
    )


def _recent(windows: tuple[Window, ...], outcome: TickOutcome) -> tuple[Window, ...]:
    seen = (*windows, *(each for each in outcome.observed.observations if isinstance(each, Window)))
    return tuple(each for each in seen if 0 <= outcome.now - each.ended_at <= _ACCEPTANCE_SPAN_SECONDS)


def _time(unix_seconds: float) -> datetime:
    return datetime.fromtimestamp(unix_seconds, UTC)
