"""May the tuner change the table at this tick, and if not, why? Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known at a tick about who may change the table."""

    instructions: Instructions
    mode: TuningMode
    now: float  # unix seconds
    settled_at: float  # unix seconds; earlier the load is still spreading
    returned_table: Schedule | None = None  # static one of pods that came back, since the spec's own failed


def permission(scene: Scene) -> Permission:
    """A person's table comes first, then a pause, then the rest after a change of replicas."""
    found = next((ruled for rule in _RULES if (ruled := rule(scene))), _TUNES)
    note = next((noted for note in _NOTES if (noted := note(scene))), None)
    if note is None:
        return found
    reason, words = note
    return Permission(reason if found.active else found.reason, f"{found.message} {words}", found.table)


def _overridden(scene: Scene) -> Permission | None:
    override = scene.instructions.override
    if override is None or _over(override, scene):
        return None
    message = f"The annotation sets the table {override.schedule} until {rfc3339(override.until)}."
    return Permission(TuningReason.OVERRIDDEN, message, override.schedule)


def _paused(scene: Scene) -> Permission | None:
    if not scene.instructions.paused:
        return None
    return Permission(TuningReason.PAUSED, "The annotation holds the table in force. No probes are made.")


def _rolled_back(scene: Scene) -> Permission | None:
    table = scene.returned_table
    if table is None:
        return None
    message = f"The spec was rolled back, see Degraded: its last good revision keeps its own table, {table}."
    return Permission(TuningReason.ROLLED_BACK, message, table)


def _settling(scene: Scene) -> Permission | None:
    if scene.now >= scene.settled_at:
        return None
    until = rfc3339(datetime.fromtimestamp(scene.settled_at, UTC))
    return Permission(TuningReason.SETTLING, f"The ready pods changed: the table is held until {until}.")


def _observing(scene: Scene) -> Permission | None:
    if scene.mode is not TuningMode.OBSERVE:
        return None
    message = "Mode Observe: decisions follow the measurements and are not carried out."
    return Permission(TuningReason.OBSERVING, message)


def _refused(scene: Scene) -> _Note | None:
    refused = scene.instructions.refused
    return None if refused is None else (TuningReason.ANNOTATION_REFUSED, f"Not used: {refused}")


def _expired(scene: Scene) -> _Note | None:
    """The annotations of an override are still there."""
    override = scene.instructions.override
    if override is None or not _over(override, scene):
        return None
    words = (
        f"The override {override.schedule} is not used, since it ended at {rfc3339(override.until)}: remove "
        f"its annotations, or set {OVERRIDE_UNTIL} to a time to come."
    )
    return TuningReason.OVERRIDE_EXPIRED, words


def _over(override: Override, scene: Scene) -> bool:
    return scene.now >= override.until.timestamp()


_Note = tuple[TuningReason, str]
"""What is said besides, and the reason where the tuner decides."""

_RULES: Sequence[Callable[[Scene], Permission | None]] = (
    _overridden,
    _paused,
    _rolled_back,
    _settling,
    _observing,
)
_NOTES: Sequence[Callable[[Scene], _Note | None]] = (_refused, _expired)
_TUNES = Permission(TuningReason.TUNING, "Decisions follow the measurements.")
