"""The tuner state of one model in a ConfigMap, so that a restart continues from it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from outrider.api.annotations import FORGET
from outrider.api.reasons import EventReason
from outrider.api.tuning import TuningMode
from outrider.cluster.errors import ClusterError, NameTaken, Refused
from outrider.controller.fleet import TunedModel
from outrider.controller.stored import state_config_map
from outrider.controller.tune.api_server import ApiServer, StateDeleted
from outrider.controller.tune.events import Event
from outrider.controller.tune.snapshot import TunerSnapshot, read_snapshot, write_snapshot
from outrider.controller.tune.timing import Timing
from outrider.tuning.stored import MAX_BYTES, StateError

log = logging.getLogger(__name__)


class TunerStore:
    """Loads the tuner state of one model once, saves it periodically, and reports requests to reset it.

    A failure is reported once and never stops tuning. Not for concurrent use.

    since: unix seconds, from which on the read is tried.
    warn: receives Events about the model.
    """

    def __init__(
        self, api_server: ApiServer, timing: Timing, since: float, warn: Callable[[Event], None]
    ) -> None:
        self._api_server = api_server
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
            self._reading = asyncio.create_task(_read(self._api_server, model))
            await asyncio.wait({self._reading}, timeout=self._timing.state_read)
        if self._reading.done():
            reading, self._reading = self._reading, None
            try:
                self._begin(model, reading.result())
                return True
            except (StateError, NameTaken) as error:
                problem = str(error)
            except ClusterError as error:
                log.warning("%s: the tuner state was not read: %s", model.key, error)
            except Exception as error:  # supervision: the model is tuned even if its state cannot be read
                log.exception("%s: the tuner state was not read", model.key)
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

    async def flush(self, *, interval: float) -> None:
        """Write the saved state if the last write is `interval` seconds old, or if schedule, order or reset
        changed.

        After a deletion nothing is written until the reset.
        """
        if self._latest is None or self._deleted:
            return
        model, snapshot, now = self._latest
        rests_on = (snapshot.state.schedule, snapshot.relaunches, snapshot.reset_request)
        if rests_on == self._saved and 0 <= now - self._saved_at < interval:
            return
        try:
            problem = await self._write(model, write_snapshot(snapshot))
        except StateDeleted:
            # After a reset meanwhile, the deleted state no longer counts.
            self._deleted = snapshot.reset_request == self._reset_request
            return
        except ClusterError as error:
            log.warning("%s: the tuner state was not written: %s", model.key, error)
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
            await self._api_server.write_state(model, text)
        except (NameTaken, Refused) as error:
            return str(error)
        return None

    def _report(self, model: TunedModel, reason: EventReason, note: str) -> None:
        log.error("%s: %s", model.key, note)
        self._warn(Event(reason, note))


async def _read(api_server: ApiServer, model: TunedModel) -> TunerSnapshot | None:
    text = await api_server.read_state(model)
    return None if text is None else read_snapshot(text, model)
