"""Override the schedule of a live model for some minutes, by annotations.

An override has an end. So the tuner takes over again even where this process and its machine are killed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from outrider.api.annotations import OVERRIDE, OVERRIDE_UNTIL
from outrider.api.conditions import ConditionType, rfc3339
from outrider.api.reasons import TuningReason
from outrider.api.resource import Metadata, SpeculativeModel
from outrider.api.status import Status
from outrider.api.tuning import Actuation
from outrider.cli.common.cluster import Access, cannot_read, no_such_model, read_model
from outrider.cli.common.output import CommandError
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError, Refused
from outrider.cluster.resources import MODELS
from outrider.cluster.reviews import Act, may
from outrider.plan import settled
from outrider_protocol.schedule import Schedule

_MAX_WAIT_SECONDS = 90.0
_LOOK_SECONDS = 0.5


class Override:
    """The override that one command sets and removes."""

    def __init__(self, cluster: ClusterClient, namespace: str, name: str) -> None:
        self._cluster, self._namespace, self._name = cluster, namespace, name
        self.until: str | None = None
        """The end of the override that is set; None: there is none."""

    async def set(self, table: Schedule | None, *, seconds: float) -> None:
        """Set an override, and return once every pod has this schedule.

        table: None removes the override. seconds: the time after which it ends.

        Raises:
            CommandError: the operator refuses the override, or does not carry it out.
            ClusterError: the API server refuses it, or does not answer.
        """
        if table is None:
            await self.take_back()
            await self._wait(
                "the schedule of before", lambda status: _reason(status) != TuningReason.OVERRIDDEN
            )
            return
        self.until = rfc3339(datetime.now(UTC) + timedelta(seconds=seconds))
        await self._annotate({OVERRIDE: str(table), OVERRIDE_UNTIL: self.until})
        await self._wait(f"the schedule {table}", lambda status: _is_overridden(status, table))

    async def holds(self, table: Schedule | None) -> bool:
        """True while the override is still in force, such as at the end of a measurement.

        Raises:
            ClusterError: the API server did not answer.
        """
        metadata, status = await self._read()
        if table is None:
            return _reason(status) != TuningReason.OVERRIDDEN
        return metadata.annotations.get(OVERRIDE_UNTIL) == self.until and _is_overridden(status, table)

    async def take_back(self) -> None:
        """Remove the override, if it is still that of this command.

        Raises:
            ClusterError: the API server does not answer; the override then stays until its end.
        """
        if self.until is None:
            return
        metadata, _ = await self._read()
        if metadata.annotations.get(OVERRIDE_UNTIL) == self.until:
            await self._annotate({OVERRIDE: None, OVERRIDE_UNTIL: None})
        self.until = None

    async def _annotate(self, annotations: dict[str, str | None]) -> None:
        await self._cluster.annotate(MODELS, self._namespace, self._name, annotations)

    async def _read(self) -> tuple[Metadata, Status]:
        raw = await self._cluster.get(MODELS, self._namespace, self._name)
        if raw is None:
            raise no_such_model(self._namespace, self._name)
        return Metadata.model_validate(raw["metadata"]), Status.model_validate(raw.get("status") or {})

    async def _wait(self, what: str, holds: Callable[[Status], bool]) -> None:
        deadline = time.monotonic() + _MAX_WAIT_SECONDS
        while True:
            _, status = await self._read()
            said = status.condition(ConditionType.TUNING_ACTIVE)
            if said is not None and said.reason == TuningReason.ANNOTATION_REFUSED:
                raise CommandError(said.message)
            converged = status.condition(ConditionType.ACTUATION_CONVERGED)
            if holds(status) and converged is not None and converged.status == "True":
                return
            if time.monotonic() > deadline:
                raise CommandError(
                    f"the operator did not push {what} to every pod within {_MAX_WAIT_SECONDS:.0f} s. "
                    f"Run `outrider status {self._name} -n {self._namespace}`."
                )
            await asyncio.sleep(_LOOK_SECONDS)


def _is_overridden(status: Status, table: Schedule) -> bool:
    in_force = None if status.speculation is None else status.speculation.schedule_summary
    return _reason(status) == TuningReason.OVERRIDDEN and in_force == str(table)


def _reason(status: Status) -> str | None:
    said = status.condition(ConditionType.TUNING_ACTIVE)
    return None if said is None else said.reason


@asynccontextmanager
async def overriding(there: Access, name: str, notify: Callable[[str], None]) -> AsyncIterator[Override]:
    """An override that is removed, however the block ends. notify: prints a line where that fails."""
    override = Override(there.cluster, there.namespace, name)
    try:
        yield override
    finally:
        try:
            await override.take_back()
        except (ClusterError, CommandError) as error:
            why = cannot_read(error) if isinstance(error, ClusterError) else error
            notify(f"the override was not removed; it ends at {override.until}: {why}")


async def overridable_model(
    there: Access, name: str, ks: tuple[int, ...]
) -> tuple[SpeculativeModel, tuple[int, ...]]:
    """The model and its candidates, rising.

    Raises:
        CommandError: no such model, one without live tuning, or one that has an override already.
        CommandError: a K that is not a candidate, or a caller who may not set an override.
    """
    model, _ = await read_model(there.cluster, there.namespace, name)
    name_of_model, spec = f"{there.namespace}/{name}", settled(model).spec
    if spec.target is not None:
        raise CommandError(
            f"this sends requests to the Service of a model, and {name_of_model} has spec.target without one."
        )
    if not spec.live or spec.speculation.tuning.actuation is not Actuation.LIVE:
        raise CommandError(
            f"this needs tuning.actuation: Live; engines of {name_of_model} cannot change K while they run."
        )
    if OVERRIDE in model.metadata.annotations:
        raise CommandError(
            f"{name_of_model} has the annotation {OVERRIDE}, which this would overwrite. Remove it first."
        )
    candidates = tuple(sorted(spec.candidates()))
    unknown = sorted({*ks} - {*candidates})
    if unknown:
        known = ", ".join(map(str, candidates))
        raise CommandError(
            f"--k {unknown[0]} is not a candidate, so the engines were launched without it. Use {known}."
        )
    await _require_right(there, name)
    return model, candidates


async def _require_right(there: Access, name: str) -> None:
    """Check the right to set an override, before load is sent.

    Raises:
        CommandError: the caller has no such right.
    """
    act = Act(MODELS.group, MODELS.plural, "patch", there.namespace, name=name)
    try:
        allowed = await may(there.cluster, act)
    except Refused:
        return  # A caller who may not ask gets the answer from the write.
    if not allowed:
        raise CommandError(
            f"you may not patch SpeculativeModel {there.namespace}/{name}, and an override is an "
            f"annotation. Ask for the verb patch on {MODELS.plural}.{MODELS.group} in {there.namespace}."
        )
