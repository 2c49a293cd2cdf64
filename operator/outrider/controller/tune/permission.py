"""May the tuner change the table at this tick, and if not, why? Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from outrider.api.annotations import OVERRIDE_UNTIL, Instructions, Override
from outrider.api.conditions import rfc3339
from outrider.api.reasons import TuningReason
from outrider.api.schedule import Schedule
from outrider.api.speculation import TuningMode

_DECIDING = (
    TuningReason.TUNING,
    TuningReason.OBSERVING,
    TuningReason.ANNOTATION_REFUSED,
    TuningReason.OVERRIDE_EXPIRED,
)


@dataclass(frozen=True, slots=True)
class Permission:
    """What rules the table. ``table``: the one that a person set."""

    reason: TuningReason
    message: str
    table: Schedule | None = None

    @property
    def active(self) -> bool:
        """The tuner decides."""
        return self.reason in _DECIDING


def permission(instructions: Instructions, *, mode: TuningMode, now: float, settled_at: float) -> Permission:
    """A person's table comes first, then a pause, then the rest after a change of replicas.

    now: unix seconds. settled_at: unix seconds; earlier the load is still spreading.
    """
    found = _permission(instructions, mode, now, settled_at)
    if instructions.refused is not None:
        reason, note = TuningReason.ANNOTATION_REFUSED, f"Not used: {instructions.refused}"
    elif (ended := _ended(instructions.override, now)) is not None:
        reason, note = TuningReason.OVERRIDE_EXPIRED, ended
    else:
        return found
    return Permission(reason if found.active else found.reason, f"{found.message} {note}", found.table)


def _ended(override: Override | None, now: float) -> str | None:
    """What to say of an override whose annotations are still there."""
    if override is None or now < override.until.timestamp():
        return None
    return (
        f"The override {override.schedule} is not used, since it ended at {rfc3339(override.until)}: remove "
        f"its annotations, or set {OVERRIDE_UNTIL} to a time to come."
    )


def _permission(instructions: Instructions, mode: TuningMode, now: float, settled_at: float) -> Permission:
    override = instructions.override
    if override is not None and now < override.until.timestamp():
        message = f"The annotation sets the table {override.schedule} until {rfc3339(override.until)}."
        return Permission(TuningReason.OVERRIDDEN, message, override.schedule)
    if instructions.paused:
        return Permission(TuningReason.PAUSED, "The annotation holds the table in force. No probes are made.")
    if now < settled_at:
        until = rfc3339(datetime.fromtimestamp(settled_at, UTC))
        message = f"The ready pods changed: the table is held until {until}."
        return Permission(TuningReason.SETTLING, message)
    if mode is TuningMode.OBSERVE:
        message = "Mode Observe: decisions follow the measurements and are not carried out."
        return Permission(TuningReason.OBSERVING, message)
    return Permission(TuningReason.TUNING, "Decisions follow the measurements.")
