"""The findings in the status of a model, sorted by what needs a person. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from outrider.api.conditions import Condition, ConditionStatus, known_condition, reason_of
from outrider.api.reason import Need
from outrider.api.resource import Metadata
from outrider.api.status import Status
from outrider.api.validation_message import first_validation_message

_PATIENCE = timedelta(minutes=2)
"""How long retries may fail before a person is needed: a scrape comes within it, and a pod has a new key.

An operator that runs and watches the namespace reads a change of a spec long before."""

_IF_IT_STAYS = "Run `outrider doctor` if this lasts longer than two minutes."
_FIND_THE_OPERATOR = "Run `outrider doctor`: is an operator installed, and does it watch this namespace?"


class _Write(BaseModel):
    """The fields that one writer of an object owns, and when it last changed one of them."""

    time: AwareDatetime | None = None
    fields: Mapping[str, object] = Field(default_factory=dict, alias="fieldsV1")


class _Written(BaseModel):
    """The part of an object's metadata that the API server writes about its writers."""

    creation_timestamp: AwareDatetime | None = Field(default=None, alias="creationTimestamp")
    managed_fields: tuple[_Write, ...] = Field(default=(), alias="managedFields")


class Urgency(StrEnum):
    """How urgent a finding is."""

    PERSON = "NeedsAPerson"
    """It stays until a person acts."""
    PASSES = "Passes"
    """Outrider works on it."""
    NOTE = "Note"
    """Worth knowing, and not urgent."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that differs from a model that serves and is tuned."""

    urgency: Urgency
    subject: str  # the condition, or what else it is about
    reason: str
    message: str
    since: datetime | None = None
    do: str = ""  # what to do about it; empty where the message has all


@dataclass(frozen=True, slots=True)
class OnCall:
    """One model by its status alone."""

    namespace: str
    name: str
    status: Status
    findings: tuple[Finding, ...]  # urgent ones first

    @property
    def needs_a_person(self) -> bool:
        """True where one of the findings needs a person."""
        return any(finding.urgency is Urgency.PERSON for finding in self.findings)


def on_call(raw: Mapping[str, object], now: datetime) -> OnCall:
    """The findings in a SpeculativeModel as the API server stores it; its spec may have any version."""
    metadata = Metadata.model_validate(raw["metadata"])
    try:
        status = Status.model_validate(raw.get("status") or {})
    except ValidationError as error:
        why = f"{first_validation_message(error, whole='status')}."
        unreadable = Finding(Urgency.PERSON, "Status", "Unreadable", why)
        return OnCall(metadata.namespace, metadata.name, Status(), (unreadable,))
    said = (_finding(condition, now) for condition in status.conditions)
    found = (*_unseen(metadata, status, _changed(raw), now), *filter(None, said))
    order = list(Urgency)
    return OnCall(
        metadata.namespace,
        metadata.name,
        status,
        tuple(sorted(found, key=lambda finding: order.index(finding.urgency))),
    )


def _unseen(
    metadata: Metadata, status: Status, changed: datetime | None, now: datetime
) -> tuple[Finding, ...]:
    """The finding that no operator has read the spec. changed: time of its last change."""
    if not status.conditions:
        message = "No operator has reported on this model."
        return (Finding(Urgency.PERSON, "Operator", "Silent", message, do="Run `outrider doctor`."),)
    if metadata.generation <= (status.observed_generation or 0):
        return ()
    if changed is not None and now - changed >= _PATIENCE:
        message = "No operator reconciles this model: none has read the last change of the spec."
        return (Finding(Urgency.PERSON, "Operator", "Behind", message, changed, do=_FIND_THE_OPERATOR),)
    message = "The operator has not seen the last change of the spec yet."
    return (Finding(Urgency.PASSES, "Operator", "Behind", message, changed, do=_IF_IT_STAYS),)


def _changed(raw: Mapping[str, object]) -> datetime | None:
    """When the spec changed last: the newest write of a field of it, else the creation of the model."""
    metadata = _Written.model_validate(raw["metadata"])
    of_spec = (each.time for each in metadata.managed_fields if "f:spec" in each.fields)
    return max(filter(None, of_spec), default=metadata.creation_timestamp)


def _finding(condition: Condition, now: datetime) -> Finding | None:
    kind = known_condition(condition.type)
    healthy = ConditionStatus.TRUE if kind is None else kind.healthy
    if condition.status is healthy and (kind is None or condition.reason not in kind.notable):
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
    """How urgent a condition is. need: that of its reason; None for a reason of another version."""
    if need is Need.NOTE:
        return Urgency.NOTE
    if need is Need.WAIT or condition.status is ConditionStatus.UNKNOWN:
        return Urgency.PASSES
    young = now - condition.last_transition_time < _PATIENCE
    return Urgency.PASSES if young and need is Need.RETRIED else Urgency.PERSON
