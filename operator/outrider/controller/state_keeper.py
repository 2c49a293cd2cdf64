"""Keeps what one model's tuner knows, so that a restart goes on where the last process stopped."""

from __future__ import annotations

import logging

from outrider.api.reasons import EventReason
from outrider.api.schedule import Schedule
from outrider.cluster.errors import ClusterError, NameTaken, Refused
from outrider.controller.fleet import Reporter, StateShelf, TunedModel
from outrider.controller.tuner_memory import Knowledge, read_knowledge, write_knowledge
from outrider.tuning.relaunch_state import RelaunchState
from outrider.tuning.stored import LARGEST_BYTES, StateError

log = logging.getLogger(__name__)

KEEP_SECONDS = 30.0
"""Time between two writes, unless the table changed."""


class StateKeeper:
    """Reads once, writes now and then. Trouble is told once and never stops tuning."""

    def __init__(self, shelf: StateShelf, reporter: Reporter) -> None:
        self._shelf = shelf
        self._reporter = reporter
        self._kept_at = float("-inf")
        self._kept: tuple[Schedule, RelaunchState] | None = None
        self._told: str | None = None

    async def restore(self, model: TunedModel) -> Knowledge | None:
        """What an earlier process knew; None where there is nothing that can be continued.

        Raises:
            ClusterError: it cannot be read at present.
        """
        try:
            text = await self._shelf.read(model)
            return None if text is None else read_knowledge(text, model)
        except (StateError, NameTaken) as error:
            note = f"What was learnt before cannot be used, the tuner starts afresh: {error}"
            log.error("%s/%s: %s", model.namespace, model.name, note)
            await self._reporter.event(model, EventReason.STATE_IGNORED, note, warning=True)
            return None

    async def keep(self, model: TunedModel, knowledge: Knowledge, *, now: float, stops: bool = False) -> None:
        """Write if it is time, if the table or an order changed, or at the end. now: unix seconds."""
        rests_on = (knowledge.state.schedule, knowledge.relaunches)
        if not stops and rests_on == self._kept and now - self._kept_at < KEEP_SECONDS:
            return
        self._kept_at, self._kept = now, rests_on
        text = write_knowledge(knowledge)
        if len(text.encode()) > LARGEST_BYTES:
            await self._complain(model, f"it has {len(text.encode())} bytes, allowed are {LARGEST_BYTES}")
            return
        try:
            await self._shelf.write(model, text)
            self._told = None
        except (NameTaken, Refused) as error:
            await self._complain(model, str(error))
        except ClusterError as error:
            self._kept_at = float("-inf")  # the next tick tries again
            log.warning("%s/%s: tuner state not written: %s", model.namespace, model.name, error)

    async def _complain(self, model: TunedModel, problem: str) -> None:
        if self._told == problem:
            return
        self._told = problem
        note = f"What was learnt is not stored and will be lost at a restart: {problem}"
        log.error("%s/%s: %s", model.namespace, model.name, note)
        await self._reporter.event(model, EventReason.STATE_NOT_KEPT, note, warning=True)
