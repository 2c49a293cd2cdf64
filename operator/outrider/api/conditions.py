"""Conditions by the Kubernetes conventions, and the rule for their transition time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from outrider.api.reasons import ConditionReason, ConditionType, condition_of
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
