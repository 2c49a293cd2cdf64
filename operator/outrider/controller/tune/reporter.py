"""Where a tick's outcome goes: the tuning loop's part of status, and Events."""

from __future__ import annotations

from typing import Protocol

from outrider.api.reasons import EventReason
from outrider.cluster.client import ClusterClient
from outrider.cluster.events import EventWriter
from outrider.cluster.ownership import TUNER_MANAGER
from outrider.controller.answers import Answers
from outrider.controller.fleet import TunedModel
from outrider.controller.store import Key


class Reporter(Protocol):
    """Where a tick's outcome goes."""

    async def apply_status(self, model: TunedModel, part: dict[str, object]) -> None:
        """Write the tuning loop's part of status.

        Raises:
            ClusterError: not written; the next tick tries again.
        """
        ...

    async def event(self, model: TunedModel, reason: EventReason, note: str, *, warning: bool) -> None:
        """Write one Event; one that cannot be written is lost and logged."""
        ...


class ClusterReporter:
    """`Reporter` over the API server."""

    def __init__(self, cluster: ClusterClient, answers: Answers) -> None:
        self._cluster = cluster
        self._answers = answers
        self._events = EventWriter(cluster)

    async def apply_status(self, model: TunedModel, part: dict[str, object]) -> None:
        """Write the tuning loop's part of status, and keep the answer."""
        answer = await self._cluster.apply_status(model.namespace, model.name, part, manager=TUNER_MANAGER)
        self._answers.keep(answer, Key(model.namespace, model.name))

    async def event(self, model: TunedModel, reason: EventReason, note: str, *, warning: bool) -> None:
        """Write one Event about the model."""
        await self._events.emit(
            model.owner, reason, note, severity="Warning" if warning else "Normal", action="Tune"
        )
