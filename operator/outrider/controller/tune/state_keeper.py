"""Keeps what one model's tuner knows, so that a restart goes on where the last process stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable

from outrider.api.reasons import EventReason
from outrider.cluster.errors import ClusterError, NameTaken, Refused
from outrider.controller.tune.events import Event
from outrider.controller.tune.fleet import StateDeleted, StateShelf, TunedModel
from outrider.controller.tune.memory import Knowledge, write_knowledge
from outrider.tuning.stored import LARGEST_BYTES

log = logging.getLogger(__name__)

KEEP_SECONDS = 30.0
"""Time between two writes, unless the table changed."""


class StateKeeper:
    """Writes now and then. Trouble is told once and never stops tuning.

    tell: takes an Event about the model.
    """

    def __init__(self, shelf: StateShelf, tell: Callable[[TunedModel, Event], None]) -> None:
        self._shelf = shelf
        self._tell = tell
        self._kept_at = float("-inf")
        self._kept: object = None
        self._told: str | None = None
        self.deleted_era: int | None = None
        """Somebody deleted what was kept of it; nothing of it, or of an earlier one, is kept again."""

    async def keep(self, model: TunedModel, knowledge: Knowledge, *, now: float, stops: bool = False) -> None:
        """Write if it is time, if the table or an order changed, or at the end. now: unix seconds."""
        era = knowledge.era
        if self.deleted_era is not None and era <= self.deleted_era:
            return
        rests_on = (knowledge.state.schedule, knowledge.relaunches, knowledge.forgot, era)
        if not stops and rests_on == self._kept and now - self._kept_at < KEEP_SECONDS:
            return
        try:
            await self._write(model, write_knowledge(knowledge))
        except StateDeleted:
            self.deleted_era = era
            return
        except ClusterError as error:
            log.warning("%s/%s: tuner state not written: %s", model.namespace, model.name, error)
            return  # the next report tries again
        self._kept_at, self._kept = now, rests_on

    async def _write(self, model: TunedModel, text: str) -> None:
        size = len(text.encode())
        if size > LARGEST_BYTES:
            self._complain(model, f"it has {size} bytes, allowed are {LARGEST_BYTES}")
            return
        try:
            await self._shelf.write(model, text)
            self._told = None
        except (NameTaken, Refused) as error:
            self._complain(model, str(error))

    def _complain(self, model: TunedModel, problem: str) -> None:
        if self._told == problem:
            return
        self._told = problem
        note = f"What was learnt is not stored and will be lost at a restart: {problem}"
        log.error("%s/%s: %s", model.namespace, model.name, note)
        self._tell(model, Event(EventReason.STATE_NOT_KEPT, note, warning=True))
