"""The reconciler's part of the status: written if it differs, with Events on transitions."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from outrider.api.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    ConditionUpdate,
    Manager,
    conditions_of,
    conditions_owned_by,
)
from outrider.api.reasons import EventReason, ProgressingReason, ReadyReason
from outrider.api.status import Status
from outrider.api.weights import WeightsStatus
from outrider.cluster.client import ClusterClient
from outrider.cluster.events import EventWriter
from outrider.cluster.ownership import MANAGER, TUNER_MANAGER, Owner
from outrider.controller.reconcile.readiness import cause
from outrider.controller.stored import StoredModel, key_of
from outrider.controller.watch import WriteThroughStore
from outrider.plan import settled

log = logging.getLogger(__name__)

_OWN_CONDITIONS = conditions_owned_by(Manager.RECONCILER)
_TUNERS_CONDITIONS = conditions_owned_by(Manager.TUNER)
_OWN_FIELDS = (
    "observedGeneration",
    "reason",
    "serving",
    "replicas",
    "readyReplicas",
    "updatedReplicas",
    "selector",
    "url",
    "weights",
)
_PROGRESS_EVENTS = {
    ProgressingReason.IN_PLACE: EventReason.ROLLING_OUT_IN_PLACE,
    ProgressingReason.COMPARING_DRAFTERS: EventReason.CANARY_STARTED,
}


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one reconcile. requeue_after_seconds: until the next one; None: wait for events."""

    statements: tuple[ConditionUpdate, ...]
    wanted: int | None  # pods that the spec asks for; None if it cannot be parsed
    replicas: int
    ready_replicas: int
    updated_replicas: int
    selector: str | None
    url: str | None
    weights: WeightsStatus | None
    requeue_after_seconds: float | None


class StatusReporter:
    """Writes reports into the status, and emits their Events."""

    def __init__(self, cluster: ClusterClient, answers: WriteThroughStore, events: EventWriter) -> None:
        self._cluster = cluster
        self._answers = answers
        self._events = events

    async def write(self, stored: StoredModel, report: Report, *, now: datetime) -> None:
        """Apply the report unless the stored status equals it.

        Raises:
            ClusterError: not written.
        """
        before = stored.status
        after = status_part(report, before, generation=stored.metadata.generation, now=now)
        if after == own_part(stored.written):
            return
        metadata = stored.metadata
        answer = await self._cluster.apply_status(metadata.namespace, metadata.name, after, manager=MANAGER)
        self._answers.keep(answer, key_of(metadata))
        owner = Owner(metadata.namespace, metadata.name, metadata.uid)
        for reason, note in transitions(before, report.statements):
            level = logging.WARNING if reason.severity == "Warning" else logging.INFO
            log.log(level, "%s/%s %s: %s", owner.namespace, owner.name, reason, note)
            await self._events.emit(owner, reason, note)

    async def remove_tuners_part(self, stored: StoredModel, report: Report) -> bool:
        """Remove what the tuner wrote of a model that it no longer tunes. False: there was nothing to remove.

        Raises:
            ClusterError: not written.
        """
        if _is_tuned(stored, report) or not _has_tuners_part(stored.status):
            return False
        metadata = stored.metadata
        # Server-side apply removes what this field manager had and no longer names.
        answer = await self._cluster.apply_status(
            metadata.namespace, metadata.name, {}, manager=TUNER_MANAGER
        )
        self._answers.keep(answer, key_of(metadata))
        return True


def _is_tuned(stored: StoredModel, report: Report) -> bool:
    """The tuner writes the status of this model, now or after a failure that may pass."""
    if stored.model is None:
        return True
    if stored.model.spec.target is not None:
        return report.replicas > 0
    return settled(stored.model).spec.live


def _has_tuners_part(status: Status) -> bool:
    conditions = any(each.type in _TUNERS_CONDITIONS for each in status.conditions)
    return conditions or bool(status.decisions) or status.speculation is not None or status.slo is not None


def status_part(report: Report, before: Status, *, generation: int, now: datetime) -> dict[str, object]:
    """The wire form of the reconciler's part of the status."""
    part = Status(
        observed_generation=generation,
        reason=cause(report.statements),
        serving=None if report.wanted is None else f"{report.ready_replicas}/{report.wanted}",
        replicas=report.replicas,
        ready_replicas=report.ready_replicas,
        updated_replicas=report.updated_replicas,
        selector=report.selector,
        url=report.url,
        weights=report.weights,
        conditions=list(
            conditions_of(report.statements, before=before.conditions, generation=generation, now=now)
        ),
    )
    return part.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"speculation", "decisions"}
    )


def transitions(before: Status, statements: tuple[ConditionUpdate, ...]) -> list[tuple[EventReason, str]]:
    """The Events for the changes between two statuses, as reason and note."""
    events: list[tuple[EventReason, str]] = []
    now_by_type = {statement.type: statement for statement in statements}
    ready, was_ready = now_by_type[ConditionType.READY], before.condition(ConditionType.READY)
    if ready.status is ConditionStatus.TRUE and not _true(was_ready):
        events.append((EventReason.READY, ready.message))
    if ready.status is ConditionStatus.FALSE and _true(was_ready):
        events.append((EventReason.NOT_READY, f"{ready.reason}: {ready.message}"))
    degraded, was_degraded = now_by_type.get(ConditionType.DEGRADED), before.condition(ConditionType.DEGRADED)
    if degraded is not None and (was_degraded is None or was_degraded.reason != degraded.reason):
        events.append((EventReason.DEGRADED, f"{degraded.reason}: {degraded.message}"))
    # A failing pod that was only deleted has not recovered.
    over = ready.status is ConditionStatus.TRUE or _was_blocked(before)
    if degraded is None and was_degraded is not None and over:
        events.append((EventReason.RECOVERED, f"{was_degraded.reason} ended."))
    progress, was_progress = (
        now_by_type[ConditionType.PROGRESSING],
        before.condition(ConditionType.PROGRESSING),
    )
    for reason, event in _PROGRESS_EVENTS.items():
        if progress.reason is reason and (was_progress is None or was_progress.reason != reason):
            events.append((event, progress.message))
    return events


def _was_blocked(before: Status) -> bool:
    ready = before.condition(ConditionType.READY)
    return ready is not None and ready.reason == ReadyReason.BLOCKED


def _true(condition: Condition | None) -> bool:
    return condition is not None and condition.status is ConditionStatus.TRUE


def own_part(raw: Mapping[str, Any]) -> dict[str, object]:
    """The reconciler's part of a stored status, in the form and order of `status_part`."""
    part: dict[str, object] = {name: raw[name] for name in _OWN_FIELDS if name in raw}
    own = {kind.value: index for index, kind in enumerate(_OWN_CONDITIONS)}
    conditions = [dict(entry) for entry in raw.get("conditions") or () if entry.get("type") in own]
    part["conditions"] = sorted(conditions, key=lambda entry: own[entry["type"]])
    return part
