"""The tuner state of one model in a ConfigMap, so that a restart continues from it.

Garbage collection deletes the ConfigMap with its owner, and the reconciler does not touch it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from outrider.api.annotations import FORGET
from outrider.api.reasons import EventReason
from outrider.api.speculation import TuningMode
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
from outrider.controller.tune.snapshot import TunerSnapshot, read_snapshot, write_snapshot
from outrider.controller.tune.timing import Timing
from outrider.tuning.stored import MAX_BYTES, StateError

log = logging.getLogger(__name__)

STATE_KEY = "state.json"
SAVE_SECONDS = 30.0
"""Seconds between two writes, unless the schedule changed."""


class StateDeleted(Exception):
    """The stored tuner state was deleted."""


class StateStore(Protocol):
    """A store for texts that survive a restart, one per model."""

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
    """`StateStore` over the API server.

    A deletion counts only for an object that was seen, so this class keeps its UID and compares.
    """

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


class TunerStore:
    """Loads the tuner state of one model once, saves it periodically, and reports requests to reset it.

    A failure is reported once and never stops tuning. Not for concurrent use.

    since: unix seconds, from which on the read is tried.
    warn: receives Events about the model.
    """

    def __init__(
        self, states: StateStore, timing: Timing, *, since: float, warn: Callable[[Event], None]
    ) -> None:
        self._states = states
        self._timing = timing
        self._since = since
        self._warn = warn
        self.restored: TunerSnapshot | None = None
        """The state that was loaded; None without a usable one."""
        self._reading: asyncio.Task[TunerSnapshot | None] | None = None
        self._latest: tuple[TunedModel, TunerSnapshot, float] | None = None
        self._saved: object = None  # what decides whether the state is due, as of the last write
        self._saved_at = float("-inf")
        self._problem: str | None = None  # of the last write
        self._reset_request: str | None = None  # that was carried out last
        self._deleted = False

    async def load(self, model: TunedModel, *, now: float) -> bool:
        """Read the stored state into `restored`. False while that fails, so call again. now: unix seconds.

        After the time of a push lease, the model is tuned without its stored state.
        """
        problem = None
        if self._reading is None:
            self._reading = asyncio.create_task(_read(self._states, model))
            await asyncio.wait({self._reading}, timeout=self._timing.state_read)
        if self._reading.done():
            reading, self._reading = self._reading, None
            try:
                self._begin(model, reading.result())
                return True
            except (StateError, NameTaken) as error:
                problem = str(error)
            except ClusterError as error:
                log.warning("%s/%s: the tuner state was not read: %s", model.namespace, model.name, error)
            except Exception as error:  # supervision: the model is tuned even if its state cannot be read
                log.exception("%s/%s: the tuner state was not read", model.namespace, model.name)
                problem = f"internal error, see the operator's log: {type(error).__name__}"
        self._since = min(self._since, now)  # later only after a clock that was ahead
        if problem is None and now - self._since >= self._timing.push_lease:
            self.stop()
            problem = f"it could not be read for {self._timing.push_lease:g} s"
        if problem is None:
            return False
        note = f"The tuner begins without its stored state, which cannot be used: {problem}"
        self._report(model, EventReason.STATE_IGNORED, note)
        self._begin(model, None)
        return True

    def stop(self) -> None:
        """Cancel the read."""
        if self._reading is not None:
            self._reading.cancel()

    def reset(self, model: TunedModel) -> str | None:
        """Take the reset that the user requested since the last call. Returns its cause; None without one.

        A state of before is not saved any more.
        """
        requested = model.instructions.forget
        if model.mode is TuningMode.OFF:
            return None
        if requested is not None and requested != self._reset_request:
            self._reset_request = requested
            cause = f"the annotation {FORGET} is {requested!r}"
        elif self._deleted:
            cause = f"the ConfigMap {state_config_map(model.name)} was deleted"
        else:
            return None
        self._deleted, self._latest, self._saved = False, None, None
        return cause

    def save(self, model: TunedModel, snapshot: TunerSnapshot | None, *, now: float) -> None:
        """Let the next `flush` write this in place of an earlier state. None: nothing. now: unix seconds."""
        if snapshot is None:
            self._latest = None
        else:
            self._latest = (model, replace(snapshot, reset_request=self._reset_request), now)

    async def flush(self, *, stops: bool = False) -> None:
        """Write the saved state if it is due, if schedule, order or reset changed, or if the loop stops.

        After a deletion nothing is written until the reset.
        """
        if self._latest is None or self._deleted:
            return
        model, snapshot, now = self._latest
        rests_on = (snapshot.state.schedule, snapshot.relaunches, snapshot.reset_request)
        if not stops and rests_on == self._saved and 0 <= now - self._saved_at < SAVE_SECONDS:
            return
        try:
            problem = await self._write(model, write_snapshot(snapshot))
        except StateDeleted:
            self._deleted = True
            return
        except ClusterError as error:
            log.warning("%s/%s: the tuner state was not written: %s", model.namespace, model.name, error)
            return  # the next tick saves again
        if problem is not None and problem != self._problem:
            note = (
                f"Outrider cannot save the tuner state, so a restart begins without measurements: {problem}"
            )
            self._report(model, EventReason.STATE_NOT_SAVED, note)
        self._problem = problem
        self._saved_at, self._saved = now, rests_on

    def _begin(self, model: TunedModel, restored: TunerSnapshot | None) -> None:
        self.restored = restored
        # Without a state there is nothing to reset.
        self._reset_request = model.instructions.forget if restored is None else restored.reset_request

    async def _write(self, model: TunedModel, text: str) -> str | None:
        """Write a text. Returns why it cannot be stored, also at the next tick; None if it was."""
        size = len(text.encode())
        if size > MAX_BYTES:
            return f"it has {size} bytes, and the limit is {MAX_BYTES}"
        try:
            await self._states.write(model, text)
        except (NameTaken, Refused) as error:
            return str(error)
        return None

    def _report(self, model: TunedModel, reason: EventReason, note: str) -> None:
        log.error("%s/%s: %s", model.namespace, model.name, note)
        self._warn(Event(reason, note, warning=True))


async def _read(states: StateStore, model: TunedModel) -> TunerSnapshot | None:
    text = await states.read(model)
    return None if text is None else read_snapshot(text, model)
