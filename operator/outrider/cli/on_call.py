"""What somebody on call wants to know of a model: what needs them, and what goes on by itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import ValidationError

from outrider.api.complaint import first_complaint
from outrider.api.conditions import Condition, ConditionStatus
from outrider.api.reason import Need
from outrider.api.reasons import ConditionType, ReadyReason, TuningReason, reason_of
from outrider.api.resource import Metadata
from outrider.api.status import Status

_GOOD_WHEN_FALSE = (ConditionType.DEGRADED, ConditionType.CONTESTED, ConditionType.PROGRESSING)

_PATIENCE = timedelta(minutes=2)
"""How long retries may fail before a person is needed: a scrape comes within it, and a pod has a new key."""

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
    do: str = ""  # what to do about it; empty where the message has all


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
    reason = reason_of(condition.type, condition.reason)
    return Finding(
        _urgency(condition, None if reason is None else reason.need, now),
        condition.type,
        condition.reason,
        condition.message,
        condition.last_transition_time,
        "" if reason is None else reason.do,
    )


def _urgency(condition: Condition, need: Need | None, now: datetime) -> Urgency:
    """need: what the reason needs; None for one of another version."""
    if need is Need.NOTE:
        return Urgency.NOTE
    if need is Need.WAIT or condition.status is ConditionStatus.UNKNOWN:
        return Urgency.PASSES
    young = now - condition.last_transition_time < _PATIENCE
    return Urgency.PASSES if young and need is Need.RETRIED else Urgency.PERSON
