"""The conditions of a SpeculativeModel: their registry, and their form in the status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from outrider.api.reasons import (
    ActuationReason,
    AdviceReason,
    ConditionReason,
    DegradedReason,
    DrafterReason,
    EffectiveReason,
    EventReason,
    LaunchReason,
    MetricsReason,
    ProgressingReason,
    ReadyReason,
    SLOReason,
    TuningReason,
)
from outrider.api.text import in_one_line, shortened


class StatusModel(BaseModel):
    """A part of the status. It ignores unknown fields, which a newer operator may have written."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )


def rfc3339(moment: datetime) -> str:
    """Format a time as in Kubernetes objects, in UTC with whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def room_for(longest: int) -> BeforeValidator:
    """Return a validator that shortens foreign text, because the API server refuses a long status.

    It also removes control characters. longest: characters.
    """
    return BeforeValidator(
        lambda text: in_one_line(shortened(text, longest)) if isinstance(text, str) else text
    )


Timestamp = Annotated[AwareDatetime, PlainSerializer(rfc3339, return_type=str)]


MAX_MESSAGE = 4096
"""Limit of a condition's message in characters."""


class ConditionStatus(StrEnum):
    """Status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Manager(StrEnum):
    """The field managers of the status; each owns its conditions."""

    RECONCILER = "outrider"
    TUNER = "outrider-tuner"


class ConditionType(StrEnum):
    """The conditions of a SpeculativeModel: the only list of them.

    `outrider status`, `outrider explain`, the metrics, the Events, and the runbook read it.
    """

    _value_: str
    owner: Manager
    """Who sets it."""
    healthy: ConditionStatus
    """The status without a problem."""
    reasons: type[ConditionReason]
    """Its reasons, each with its urgency and what to do; a reason belongs to one condition only."""
    meaning: str
    """What True says, and when the condition is absent."""
    events: tuple[EventReason, EventReason] | None
    """The Events when it becomes unhealthy and healthy again; None if another rule emits them."""
    notable: frozenset[str]
    """Reasons that `outrider status` shows although the status is healthy."""

    def __new__(
        cls,
        value: str,
        owner: Manager,
        healthy: ConditionStatus,
        reasons: type[ConditionReason],
        meaning: str,
        events: tuple[EventReason, EventReason] | None = None,
        notable: tuple[ConditionReason, ...] = (),
    ) -> Self:
        """A member."""
        member = str.__new__(cls, value)
        member._value_, member.owner, member.healthy, member.reasons = value, owner, healthy, reasons
        member.meaning, member.events, member.notable = meaning, events, frozenset(notable)
        return member

    READY = (
        "Ready",
        Manager.RECONCILER,
        ConditionStatus.TRUE,
        ReadyReason,
        "Pods of the current spec serve. The reconciler sets it; it is never absent.",
        (EventReason.NOT_READY, EventReason.READY),
        (ReadyReason.PARTIALLY_SERVING,),
    )
    PROGRESSING = (
        "Progressing",
        Manager.RECONCILER,
        ConditionStatus.FALSE,
        ProgressingReason,
        "A rollout or a download is under way. The reconciler sets it; it is never absent.",
    )
    DEGRADED = (
        "Degraded",
        Manager.RECONCILER,
        ConditionStatus.FALSE,
        DegradedReason,
        "The model needs a person. The reconciler sets it; it is absent if nothing is wrong.",
    )
    KNOWN_ISSUES = (
        "KnownIssues",
        Manager.RECONCILER,
        ConditionStatus.FALSE,
        AdviceReason,
        "A known limit or defect of vLLM affects this launch. Outrider launches the engines all the same. "
        "Absent if none is known.",
    )
    TUNING_ACTIVE = (
        "TuningActive",
        Manager.TUNER,
        ConditionStatus.TRUE,
        TuningReason,
        "The tuner may change the schedule. Absent in mode Off and without ready pods, unless there is an "
        "override, a pause or an error.",
        None,
        (TuningReason.OVERRIDE_EXPIRED, TuningReason.ANNOTATION_REFUSED),
    )
    METRICS_AVAILABLE = (
        "MetricsAvailable",
        Manager.TUNER,
        ConditionStatus.TRUE,
        MetricsReason,
        "Every ready pod has fresh measurements. While it is False, the schedule stays as it is and "
        "requests are served. Absent in mode Off.",
        (EventReason.METRICS_LOST, EventReason.METRICS_RECOVERED),
    )
    ACTUATION_CONVERGED = (
        "ActuationConverged",
        Manager.TUNER,
        ConditionStatus.TRUE,
        ActuationReason,
        "Every ready pod confirmed the schedule that Outrider pushed. Absent without ready pods. A probe "
        "that could not start is in the message; it changes nothing and is repeated later.",
        (EventReason.ACTUATION_FAILED, EventReason.ACTUATION_RECOVERED),
    )
    SPECULATION_EFFECTIVE = (
        "SpeculationEffective",
        Manager.TUNER,
        ConditionStatus.TRUE,
        EffectiveReason,
        "Speculation pays at the present load. Absent until it is measured.",
    )
    DRAFTER_HEALTHY = (
        "DrafterHealthy",
        Manager.TUNER,
        ConditionStatus.TRUE,
        DrafterReason,
        "The acceptance rate of the drafter is plausible. It is measured at the first position, over the "
        "last minute: that rate does not depend on K. The rate over all draft tokens falls with K. Absent "
        "until measured.",
    )
    LAUNCH_OPTIMAL = (
        "LaunchOptimal",
        Manager.TUNER,
        ConditionStatus.TRUE,
        LaunchReason,
        "No better launch configuration of the engines is known for this load. Absent if the spec lets the "
        "tuner neither change nor judge the launch.",
    )
    SLO_KEPT = (
        "SLOKept",
        Manager.TUNER,
        ConditionStatus.TRUE,
        SLOReason,
        "The latencies of the last two minutes keep the targets of tuning.slo. Unknown "
        "while they cannot be compared. Absent without targets and without ready pods.",
    )


_CONDITION_OF = {kind.reasons: kind for kind in ConditionType}


def condition_of(reason: ConditionReason) -> ConditionType:
    """The condition of a reason."""
    return _CONDITION_OF[type(reason)]


def conditions_owned_by(manager: Manager) -> tuple[ConditionType, ...]:
    """The conditions that a field manager sets, in their order."""
    return tuple(kind for kind in ConditionType if kind.owner is manager)


def known_condition(name: str) -> ConditionType | None:
    """The condition of this name; None for one that this version does not have."""
    return next((kind for kind in ConditionType if kind == name), None)


def reason_of(condition: str, reason: str) -> ConditionReason | None:
    """The reason of a stored condition; None for one that this version does not have."""
    kind = known_condition(condition)
    members: Iterable[ConditionReason] = () if kind is None else kind.reasons
    return next((known for known in members if known == reason), None)


class Condition(StatusModel):
    """One statement about the model. A condition that does not apply is absent."""

    type: Annotated[str, Field(min_length=1, max_length=64)]
    """Name of the condition."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Reason in one stable word; docs/runbooks/conditions.md has the list."""
    message: Annotated[str, room_for(MAX_MESSAGE), Field(max_length=MAX_MESSAGE)] = ""
    """What Outrider does, why, and what to do to change it."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """Generation of the spec that the statement is about."""
    last_transition_time: Timestamp
    """When `status` last changed."""


def apply_transition(existing: Condition | None, new: Condition, now: datetime) -> Condition:
    """Return ``new`` with its transition time, which changes only when `status` changes.

    ``existing``: the stored condition of the same type, or None.
    ``now``: wall-clock time, aware.
    """
    unchanged = existing is not None and existing.status is new.status
    since = existing.last_transition_time if existing is not None and unchanged else now
    return new.model_copy(update={"last_transition_time": since})


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """One condition without its times. Its reason determines its type."""

    status: ConditionStatus
    reason: ConditionReason
    message: str
    """Message in one line, also if a pod wrote it, because status, events and terminals show it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", in_one_line(shortened(self.message, MAX_MESSAGE)))

    @property
    def type(self) -> ConditionType:
        """Type of the condition."""
        return condition_of(self.reason)


def conditions_of(
    statements: Iterable[ConditionUpdate], *, before: Iterable[Condition], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return statements as conditions of the status, in their order.

    before: the stored conditions. generation: of the spec that the statements are about.
    now: wall-clock time, aware.
    """
    stored = {condition.type: condition for condition in before}
    return tuple(
        apply_transition(
            stored.get(statement.type),
            Condition(
                type=statement.type,
                status=statement.status,
                reason=statement.reason,
                message=statement.message,
                observed_generation=generation,
                last_transition_time=now,
            ),
            now,
        )
        for statement in statements
    )
