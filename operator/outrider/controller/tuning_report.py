"""Turn a tick's outcome into the tuning loop's part of status. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from outrider.api.conditions import Condition, apply_transition
from outrider.api.reasons import ConditionType
from outrider.api.schedule import Schedule
from outrider.api.status import (
    AppliedRow,
    DecisionRecord,
    SpeculationState,
    SpeculationStatus,
    Speedup,
    SpeedupReference,
    Status,
)
from outrider.controller.actuation import PushReport
from outrider.controller.model_tuner import TickOutcome
from outrider.controller.tuning_conditions import Statement, statements
from outrider.tuning.decision import Acceptance, Decision, DecisionReason, Kind
from outrider.tuning.report import pooled_acceptance
from outrider.tuning.window import Window

KEPT_DECISIONS = 5
_ACCEPTANCE_SPAN_SECONDS = 60.0
_LONGEST_MESSAGE = 1024

_CHOICES = (DecisionReason.BETTER_K, DecisionReason.CALIBRATED)


@dataclass(frozen=True, slots=True)
class ReportState:
    """What reporting remembers between ticks."""

    conditions: tuple[Condition, ...] = ()
    decisions: tuple[DecisionRecord, ...] = ()
    speedup: Speedup | None = None
    windows: tuple[Window, ...] = field(default=(), repr=False)

    @classmethod
    def continued(cls, status: Status) -> ReportState:
        """Go on from what an earlier process wrote."""
        speedup = status.speculation.speedup if status.speculation else None
        return cls(tuple(status.conditions), tuple(status.decisions), speedup)

    def condition(self, kind: ConditionType) -> Condition | None:
        """One condition, None where it is absent."""
        return next((condition for condition in self.conditions if condition.type == kind), None)


@dataclass(frozen=True, slots=True)
class Report:
    """The tuning loop's part of status; conditions and decisions are those that reporting remembers."""

    speculation: SpeculationStatus
    state: ReportState

    def to_wire(self) -> dict[str, object]:
        """For server-side apply: exactly the fields that the tuning loop owns."""
        dump = {"by_alias": True, "exclude_none": True, "mode": "json"}
        return {
            "conditions": [condition.model_dump(**dump) for condition in self.state.conditions],  # type: ignore[arg-type]
            "speculation": self.speculation.model_dump(**dump),  # type: ignore[arg-type]
            "decisions": [record.model_dump(**dump) for record in self.state.decisions],  # type: ignore[arg-type]
        }


def report(outcome: TickOutcome, state: ReportState) -> Report:
    """What to write after one tick."""
    windows = _recent(state.windows, outcome)
    state = replace(
        state,
        windows=windows,
        speedup=_speedup(outcome.decision) or state.speedup,
        decisions=_decisions(outcome, state.decisions),
    )
    acceptance = pooled_acceptance(windows)
    said = statements(outcome, before=state.conditions, acceptance=acceptance, speedup=state.speedup)
    conditions = _conditions(said, outcome, state)
    return Report(
        speculation=_speculation(outcome, acceptance, state.speedup),
        state=replace(state, conditions=conditions),
    )


def _conditions(
    statements: Iterable[Statement], outcome: TickOutcome, state: ReportState
) -> tuple[Condition, ...]:
    now = _time(outcome.now)
    return tuple(
        apply_transition(
            state.condition(statement.kind),
            Condition(
                type=statement.kind,
                status=statement.status,
                reason=statement.reason,
                message=statement.message[:_LONGEST_MESSAGE],
                observed_generation=outcome.model.generation,
                last_transition_time=now,
            ),
            now,
        )
        for statement in statements
    )


def _speculation(
    outcome: TickOutcome, acceptance: Acceptance | None, speedup: Speedup | None
) -> SpeculationStatus:
    push, table = outcome.push, outcome.in_force
    return SpeculationStatus(
        state=_state(table, push),
        epoch=push.epoch if push else None,
        schedule=_rows(table) if table else None,
        table=str(table.merged()) if table else None,
        applied_replicas=len(push.confirmed) if push else 0,
        acceptance_rate=acceptance.rate if acceptance else None,
        acceptance_length=acceptance.length if acceptance else None,
        per_position_acceptance=list(acceptance.per_position) if acceptance else None,
        speedup=speedup,
    )


def _state(table: Schedule | None, push: PushReport | None) -> SpeculationState:
    if table is None or push is None or not push.confirmed:
        return SpeculationState.UNAVAILABLE
    return SpeculationState.ACTIVE if table.values() != {0} else SpeculationState.SOFT_OFF


def _rows(table: Schedule) -> list[AppliedRow]:
    return [
        AppliedRow(max_batch_size=tier.max_batch_size, num_speculative_tokens=tier.num_speculative_tokens)
        for tier in table.merged().tiers
    ]


def _decisions(outcome: TickOutcome, kept: tuple[DecisionRecord, ...]) -> tuple[DecisionRecord, ...]:
    decision = outcome.decision
    if decision is None:
        return kept
    if not decision.changed or decision.kind is Kind.HOLD:
        return _with_measured_gain(decision, kept)
    record = DecisionRecord(
        time=_time(outcome.now),
        from_=str(outcome.before.merged()),
        to=str(decision.schedule.merged()),
        reason=decision.reason,
        message=decision.sentence[:_LONGEST_MESSAGE],
        expected_gain=None if decision.expected_gain is None else 1 + decision.expected_gain,
    )
    return (record, *_with_measured_gain(decision, kept))[:KEPT_DECISIONS]


def _with_measured_gain(decision: Decision, kept: tuple[DecisionRecord, ...]) -> tuple[DecisionRecord, ...]:
    """The gain that this tick measured belongs to the last K that was chosen, not to a trial since."""
    chosen = next((index for index, record in enumerate(kept) if record.reason in _CHOICES), None)
    if chosen is None or decision.measured_gain is None or kept[chosen].measured_gain is not None:
        return kept
    record = kept[chosen].model_copy(update={"measured_gain": 1 + decision.measured_gain})
    return (*kept[:chosen], record, *kept[chosen + 1 :])


def _speedup(decision: Decision | None) -> Speedup | None:
    measured = decision.speedup if decision else None
    if measured is None:
        return None
    return Speedup(
        ratio=measured.ratio,
        low=measured.low,
        high=measured.high,
        reference=SpeedupReference(measured.reference.value),
        measured_at=_time(measured.measured_at),
    )


def _recent(windows: tuple[Window, ...], outcome: TickOutcome) -> tuple[Window, ...]:
    seen = (*windows, *(each for each in outcome.observations if isinstance(each, Window)))
    return tuple(each for each in seen if each.ended_at >= outcome.now - _ACCEPTANCE_SPAN_SECONDS)


def _time(unix_seconds: float) -> datetime:
    return datetime.fromtimestamp(unix_seconds, UTC)
