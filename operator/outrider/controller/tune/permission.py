"""Whether the tuner may change the schedule at this tick, and why not. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from outrider.api.annotations import OVERRIDE, OVERRIDE_UNTIL, PAUSED, Instructions, Override
from outrider.api.conditions import rfc3339
from outrider.api.reasons import TuningReason
from outrider.api.tuning import TuningMode
from outrider_protocol.schedule import Schedule

_DECIDING = (
    TuningReason.TUNING,
    TuningReason.OBSERVING,
    TuningReason.ANNOTATION_REFUSED,
    TuningReason.OVERRIDE_EXPIRED,
)


_Note = tuple[TuningReason, str]
"""A reason that applies if the tuner decides, and a sentence that is added to the message."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Who decides on the schedule, and why. ``table``: the schedule that is set in its place."""

    reason: TuningReason
    message: str
    table: Schedule | None = None

    @property
    def active(self) -> bool:
        """Whether the tuner decides."""
        return self.reason in _DECIDING


@dataclass(frozen=True, slots=True)
class PermissionInput:
    """The inputs of a tick about who may change the schedule."""

    instructions: Instructions
    mode: TuningMode
    now: float  # unix seconds
    settled_at: float  # unix seconds; before, the load is still spreading
    returned_table: Schedule | None = None  # static schedule of the restored revision after a rollback


def permission(given: PermissionInput) -> Permission:
    """The permission of a tick: an override comes first, then a pause, then a change of replicas."""
    held = _overridden(given) or _paused(given) or _rolled_back(given) or _settling(given)
    found = held or _observing(given) or _TUNES
    note = _refused(given) or _expired(given)
    if note is None:
        return found
    reason, words = note
    return Permission(reason if found.active else found.reason, f"{found.message} {words}", found.table)


def _overridden(given: PermissionInput) -> Permission | None:
    override = given.instructions.override
    if override is None or _over(override, given):
        return None
    message = (
        f"The annotation {OVERRIDE} sets the schedule {override.schedule} until "
        f"{rfc3339(override.until)}. To end it earlier, remove the annotation."
    )
    return Permission(TuningReason.OVERRIDDEN, message, override.schedule)


def _paused(given: PermissionInput) -> Permission | None:
    if not given.instructions.paused:
        return None
    message = f"The annotation {PAUSED} keeps the present schedule, without probes. To resume, remove it."
    return Permission(TuningReason.PAUSED, message)


def _rolled_back(given: PermissionInput) -> Permission | None:
    table = given.returned_table
    if table is None:
        return None
    message = (
        "Tuning is off: the spec was rolled back (see Degraded). The last good revision serves with its "
        f"static schedule {table}."
    )
    return Permission(TuningReason.ROLLED_BACK, message, table)


def _settling(given: PermissionInput) -> Permission | None:
    if given.now >= given.settled_at:
        return None
    until = rfc3339(datetime.fromtimestamp(given.settled_at, UTC))
    message = f"Outrider keeps the schedule until {until}, because the number of ready pods changed."
    return Permission(TuningReason.SETTLING, message)


def _observing(given: PermissionInput) -> Permission | None:
    if given.mode is not TuningMode.OBSERVE:
        return None
    message = "Mode Observe: the tuner decides and changes nothing. To change it, set tuning.mode: Auto."
    return Permission(TuningReason.OBSERVING, message)


def _refused(given: PermissionInput) -> _Note | None:
    refused = given.instructions.refused
    words = f"Outrider ignores an annotation: {refused}"
    return None if refused is None else (TuningReason.ANNOTATION_REFUSED, words)


def _expired(given: PermissionInput) -> _Note | None:
    """The note about an override that ended."""
    override = given.instructions.override
    if override is None or not _over(override, given):
        return None
    words = (
        f"Outrider ignores the override {override.schedule}, because it ended at {rfc3339(override.until)}. "
        f"Remove its annotations, or set {OVERRIDE_UNTIL} to a later time."
    )
    return TuningReason.OVERRIDE_EXPIRED, words


def _over(override: Override, given: PermissionInput) -> bool:
    return given.now >= override.until.timestamp()


_TUNES = Permission(TuningReason.TUNING, "The tuner changes the schedule by its measurements.")
