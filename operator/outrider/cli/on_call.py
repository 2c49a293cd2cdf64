"""What somebody on call wants to know of a model: what needs them, and what goes on by itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import ValidationError

from outrider.api.complaint import first_complaint
from outrider.api.conditions import Condition, ConditionStatus
from outrider.api.reasons import (
    ActuationReason,
    ConditionType,
    DrafterReason,
    EffectiveReason,
    LaunchReason,
    MetricsReason,
    ProgressingReason,
    ReadyReason,
    TuningReason,
)
from outrider.api.resource import Metadata
from outrider.api.status import Status

_GOOD_WHEN_FALSE = (ConditionType.DEGRADED, ConditionType.CONTESTED, ConditionType.PROGRESSING)

_PASSES = (
    ReadyReason.ROLLING_OUT,
    ReadyReason.PARTIALLY_SERVING,
    ProgressingReason.ROLLING_OUT,
    ProgressingReason.IN_PLACE,
    ProgressingReason.DOWNLOADING,
    MetricsReason.COUNTER_RESET,
    EffectiveReason.SLOWER,
    TuningReason.SETTLING,
    LaunchReason.DRAFTER_WOULD_PAY,
    LaunchReason.RELAUNCHING,
    LaunchReason.RELAUNCH_POSTPONED,
    LaunchReason.CANARY_RUNNING,
)
"""The operator is at it, or a tick will change it."""

_NOTES = (
    ReadyReason.SCALED_TO_ZERO,
    TuningReason.OBSERVING,
    TuningReason.PAUSED,
    TuningReason.OVERRIDDEN,
    TuningReason.OVERRIDE_EXPIRED,
    EffectiveReason.SOFT_OFF,
    EffectiveReason.WITHIN_NOISE,
    DrafterReason.MARGINAL,
    DrafterReason.POOR,
    LaunchReason.DRAFTER_IDLE,
    LaunchReason.RELAUNCH_ROLLED_BACK,
)
"""Somebody wanted it so, it is right at this load, or it can wait until the morning."""

_TRIED_AGAIN = (
    MetricsReason.PROMETHEUS_UNREACHABLE,
    MetricsReason.ENGINES_UNREACHABLE,
    MetricsReason.NO_SERIES,
    MetricsReason.STALE,
    ActuationReason.PARTIALLY_APPLIED,
    ActuationReason.ENGINE_UNREACHABLE,
)
"""The next ticks may well succeed..."""

_PATIENCE = timedelta(minutes=2)
"""... but not after so long: a scrape comes within it, and a pod has a new key."""

_TOLD_ALTHOUGH_GOOD = (
    ReadyReason.PARTIALLY_SERVING,
    TuningReason.OVERRIDE_EXPIRED,
    TuningReason.ANNOTATION_REFUSED,
)


class Urgency(StrEnum):
    """Whom a finding wants."""

    PERSON = "NeedsAPerson"
    """It does not go away by itself."""
    PASSES = "Passes"
    """The operator is at it."""
    NOTE = "Note"
    """Worth knowing, and no reason to get up."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as in a model that serves and is tuned."""

    urgency: Urgency
    subject: str  # the condition, or what else it is about
    reason: str
    message: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class OnCall:
    """One model as its status tells it; nothing else is read."""

    namespace: str
    name: str
    status: Status
    findings: tuple[Finding, ...]  # the urgent ones first

    @property
    def needs_a_person(self) -> bool:
        """Whether one of the findings does."""
        return any(finding.urgency is Urgency.PERSON for finding in self.findings)


def on_call(raw: Mapping[str, object], now: datetime) -> OnCall:
    """raw: a SpeculativeModel as the API server keeps it. Its spec may be of any version."""
    metadata = Metadata.model_validate(raw["metadata"])
    try:
        status = Status.model_validate(raw.get("status") or {})
    except ValidationError as error:
        why = f"{first_complaint(error, whole='status')}."
        unreadable = Finding(Urgency.PERSON, "Status", "Unreadable", why)
        return OnCall(metadata.namespace, metadata.name, Status(), (unreadable,))
    said = (_finding(condition, now) for condition in status.conditions)
    found = (*_unseen(metadata, status), *filter(None, said))
    order = list(Urgency)
    return OnCall(
        metadata.namespace,
        metadata.name,
        status,
        tuple(sorted(found, key=lambda finding: order.index(finding.urgency))),
    )


def _unseen(metadata: Metadata, status: Status) -> tuple[Finding, ...]:
    if not status.conditions:
        message = "No operator has reported on this model; `outrider doctor` looks for one."
        return (Finding(Urgency.PERSON, "Operator", "Silent", message),)
    if metadata.generation > (status.observed_generation or 0):
        message = "The last change of the spec was not seen yet; `outrider doctor` if this stays."
        return (Finding(Urgency.PASSES, "Operator", "Behind", message),)
    return ()


def _finding(condition: Condition, now: datetime) -> Finding | None:
    good = ConditionStatus.FALSE if condition.type in _GOOD_WHEN_FALSE else ConditionStatus.TRUE
    if condition.status is good and condition.reason not in _TOLD_ALTHOUGH_GOOD:
        return None
    return Finding(
        _urgency(condition, now),
        condition.type,
        condition.reason,
        condition.message,
        condition.last_transition_time,
    )


def _urgency(condition: Condition, now: datetime) -> Urgency:
    if condition.reason in _NOTES:
        return Urgency.NOTE
    if condition.reason in _PASSES or condition.status is ConditionStatus.UNKNOWN:
        return Urgency.PASSES
    young = now - condition.last_transition_time < _PATIENCE
    return Urgency.PASSES if young and condition.reason in _TRIED_AGAIN else Urgency.PERSON
