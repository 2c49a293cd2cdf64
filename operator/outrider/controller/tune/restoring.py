"""What an earlier process knew of one model, read without holding up anybody."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from outrider.cluster.errors import ClusterError, NameTaken
from outrider.controller.fleet import TunedModel
from outrider.controller.tune.memory import Knowledge, read_knowledge
from outrider.controller.tune.stored_state import StateStore
from outrider.tuning.stored import StateError

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""How long a tick waits for a reading that it began."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What there is to go on from. ``problem``: why something is stored and cannot be used."""

    knowledge: Knowledge | None
    problem: str | None = None


class Restoring:
    """Reads until it is read. Not for concurrent use.

    since: unix seconds.
    patience_seconds: after them the model is tuned without what is stored.
    """

    def __init__(self, states: StateStore, *, since: float, patience_seconds: float) -> None:
        self._states = states
        self._since = since
        self._patience = patience_seconds
        self._reading: asyncio.Task[Restored] | None = None

    async def look(self, model: TunedModel, *, now: float) -> Restored | None:
        """What was read; None while it cannot be read, so ask again. now: unix seconds."""
        if self._reading is None:
            self._reading = asyncio.create_task(_read(self._states, model))
            await asyncio.wait({self._reading}, timeout=_LOOK_SECONDS)
        if self._reading.done():
            reading, self._reading = self._reading, None
            try:
                return reading.result()
            except ClusterError as error:
                log.warning("%s/%s: tuner state not read: %s", model.namespace, model.name, error)
        if now - self._since < self._patience:
            return None
        self.stop()
        return Restored(None, f"it could not be read for {self._patience:g} s")

    def stop(self) -> None:
        """Give up."""
        if self._reading is not None:
            self._reading.cancel()


async def _read(states: StateStore, model: TunedModel) -> Restored:
    try:
        text = await states.read(model)
        return Restored(None if text is None else read_knowledge(text, model))
    except (StateError, NameTaken) as error:
        return Restored(None, str(error))
    except ClusterError:
        raise
    except Exception as error:  # supervision: whatever is stored, the model is tuned
        log.exception("%s/%s: tuner state not read", model.namespace, model.name)
        return Restored(None, f"internal error, see the operator's log: {type(error).__name__}")
