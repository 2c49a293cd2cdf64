"""The tuner state of one model in a ConfigMap, so that a restart continues from it.

Garbage collection deletes the ConfigMap with its owner, and the reconciler does not touch it. A deletion
counts only for an object that was seen: this module keeps its UID and compares.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from outrider.api.reasons import EventReason
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError, NameTaken, Refused
from outrider.cluster.objects import Child
from outrider.cluster.ownership import TUNER_MANAGER, Ownership, name_taken, ownership
from outrider.cluster.resources import CONFIG_MAPS
from outrider.controller.children import Children
from outrider.controller.fleet import TunedModel
from outrider.controller.launch_orders import config_map
from outrider.controller.store import Key, Store, state_config_map
from outrider.controller.tune.events import Event
from outrider.controller.tune.snapshot import TunerSnapshot, read_knowledge, write_knowledge
from outrider.tuning.stored import MAX_BYTES, StateError

log = logging.getLogger(__name__)

STATE_KEY = "state.json"
KEEP_SECONDS = 30.0
"""Seconds between two writes, unless the schedule changed."""


class StateDeleted(Exception):
    """The stored tuner state was deleted."""


class StateStore(Protocol):
    """A store for the tuner state that survives a restart."""

    async def read(self, model: TunedModel) -> str | None:
        """The text that was written last; None without one.

        Raises:
            NameTaken: the ConfigMap belongs to another owner.
            ClusterError: it cannot be read at present.
        """
        ...

    async def write(self, model: TunedModel, text: str) -> None:
        """Store a text. The same text again is not written.

        Raises:
            StateDeleted: the object that was read or written last is gone; the next write creates another
            one.
            ClusterError: not stored.
        """
        ...


class ClusterStateStore:
    """`StateStore` over the API server."""

    def __init__(self, cluster: ClusterClient, store: Store) -> None:
        self._cluster = cluster
        self._store = store
        self._children = Children(cluster, store, manager=TUNER_MANAGER)
        self._seen: dict[str, str] = {}  # by the UID of a model, that of its ConfigMap

    async def read(self, model: TunedModel) -> str | None:
        """See `StateStore.read`."""
        name = state_config_map(model.name)
        live = await self._cluster.get(CONFIG_MAPS, model.namespace, name)
        self._seen.pop(model.uid, None)
        if live is None:
            return None
        child, owner = Child.model_validate(live), model.owner
        match ownership(child, owner):
            case Ownership.OURS:
                self._seen[model.uid] = child.metadata.uid
                return str((live.get("data") or {}).get(STATE_KEY, ""))
            case Ownership.PREDECESSORS:
                return None
            case Ownership.FOREIGN:
                raise name_taken(child, owner)

    async def write(self, model: TunedModel, text: str) -> None:
        """See `StateStore.write`."""
        if await self._was_deleted(model):
            del self._seen[model.uid]
            raise StateDeleted
        manifest = config_map(model, state_config_map(model.name), {STATE_KEY: text})
        await self._children.apply(model.owner, [manifest])
        before, now = self._seen.get(model.uid), self._watched(model)
        if now is not None:
            self._seen[model.uid] = now
            if before not in (None, now):
                raise StateDeleted  # it was deleted just before this write, which created another one

    async def _was_deleted(self, model: TunedModel) -> bool:
        seen = self._seen.get(model.uid)
        if seen is None or self._watched(model) == seen:
            return False
        # The watch finds it by a label, which a user may have removed.
        live = await self._cluster.get(CONFIG_MAPS, model.namespace, state_config_map(model.name))
        return live is None or Child.model_validate(live).metadata.uid != seen

    def _watched(self, model: TunedModel) -> str | None:
        """UID of the ConfigMap by the watch; None if the watch has none."""
        key = Key(model.namespace, state_config_map(model.name))
        stored = self._store.children[CONFIG_MAPS].get(key)
        return None if stored is None else stored.metadata.uid


class StateKeeper:
    """Writes the tuner state periodically. A failure is reported once and never stops tuning.

    `tell`: receives an Event about the model.
    """

    def __init__(self, states: StateStore, tell: Callable[[TunedModel, Event], None]) -> None:
        self._states = states
        self._tell = tell
        self._kept_at = float("-inf")
        self._kept: object = None
        self._told: str | None = None
        self.deleted_era: int | None = None
        """The era whose stored state was deleted; its state and earlier ones are not written again."""

    async def keep(
        self, model: TunedModel, knowledge: TunerSnapshot, *, now: float, stops: bool = False
    ) -> None:
        """Write the state if it is due, if schedule or order changed, or at the end. now: unix seconds."""
        era = knowledge.era
        if self.deleted_era is not None and era <= self.deleted_era:
            return
        rests_on = (knowledge.state.schedule, knowledge.relaunches, knowledge.forgot, era)
        if not stops and rests_on == self._kept and 0 <= now - self._kept_at < KEEP_SECONDS:
            return
        try:
            await self._write(model, write_knowledge(knowledge))
        except StateDeleted:
            self.deleted_era = era
            return
        except ClusterError as error:
            log.warning("%s/%s: the tuner state was not written: %s", model.namespace, model.name, error)
            return  # the next report tries again
        self._kept_at, self._kept = now, rests_on

    async def _write(self, model: TunedModel, text: str) -> None:
        size = len(text.encode())
        if size > MAX_BYTES:
            self._complain(model, f"it has {size} bytes, and the limit is {MAX_BYTES}")
            return
        try:
            await self._states.write(model, text)
            self._told = None
        except (NameTaken, Refused) as error:
            self._complain(model, str(error))

    def _complain(self, model: TunedModel, problem: str) -> None:
        if self._told == problem:
            return
        self._told = problem
        note = f"Outrider cannot save the tuner state, so a restart begins without measurements: {problem}"
        log.error("%s/%s: %s", model.namespace, model.name, note)
        self._tell(model, Event(EventReason.STATE_NOT_SAVED, note, warning=True))


@dataclass(frozen=True, slots=True)
class Restored:
    """The restored state. ``problem``: why the stored state cannot be used."""

    knowledge: TunerSnapshot | None
    problem: str | None = None


class Restoring:
    """Reads the stored state, with retries. Not for concurrent use.

    since: unix seconds.
    patience_seconds: timeout, after which the model is tuned without the stored state.
    look_seconds: time that a tick waits for a read that it began.
    """

    def __init__(
        self, states: StateStore, *, since: float, patience_seconds: float, look_seconds: float
    ) -> None:
        self._states = states
        self._since = since
        self._patience = patience_seconds
        self._look = look_seconds
        self._reading: asyncio.Task[Restored] | None = None

    async def look(self, model: TunedModel, *, now: float) -> Restored | None:
        """The result of the read; None while it fails, so call again. now: unix seconds."""
        if self._reading is None:
            self._reading = asyncio.create_task(_read(self._states, model))
            await asyncio.wait({self._reading}, timeout=self._look)
        if self._reading.done():
            reading, self._reading = self._reading, None
            try:
                return reading.result()
            except ClusterError as error:
                log.warning("%s/%s: the tuner state was not read: %s", model.namespace, model.name, error)
        self._since = min(self._since, now)  # later only after a clock that was ahead
        if now - self._since < self._patience:
            return None
        self.stop()
        return Restored(None, f"it could not be read for {self._patience:g} s")

    def stop(self) -> None:
        """Cancel the read."""
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
    except Exception as error:  # supervision: the model is tuned even if its stored state cannot be read
        log.exception("%s/%s: the tuner state was not read", model.namespace, model.name)
        return Restored(None, f"internal error, see the operator's log: {type(error).__name__}")
