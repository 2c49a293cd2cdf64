"""Background writes to the API server for the ticks of one model: status, Events, tuner state."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from outrider.api.conditions import ConditionType
from outrider.cluster.errors import ClusterError
from outrider.controller.fleet import TunedModel
from outrider.controller.tune.api_server import ApiServer
from outrider.controller.tune.events import Event
from outrider.controller.tune.report import TunerReport
from outrider.controller.tune.tuner_store import TunerStore

log = logging.getLogger(__name__)

MAX_EVENTS = 32
"""Maximum number of Events that wait; beyond it, the oldest are lost."""


class Turns:
    """Lets a few models write at a time, so that reconciles of new models find a free API server.

    Reports of models that wait replace their earlier ones, so fewer are written. A model that writes for
    longer than `longest` seconds no longer counts, so writes that hang do not stop those of other models.
    """

    def __init__(self, at_once: int = 4, *, longest: float = 2.0) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._longest = longest

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until fewer models write, and count as one of them in the block."""
        await self._free.acquire()
        counts = True

        def end() -> None:
            nonlocal counts
            if counts:
                counts = False
                self._free.release()

        timer = asyncio.get_running_loop().call_later(self._longest, end)
        try:
            yield
        finally:
            timer.cancel()
            end()


class WriteQueue:
    """One write at a time: the latest report, all Events in order, then the tuner state.

    A failing write delays the other writes of this model until its timeout, and others by its turn.
    turns: of all models. timeout_seconds: of one write. numbers_interval: seconds between two writes of the
    status, or of the state, if only numbers changed. Other changes are written at once.
    """

    def __init__(
        self,
        api_server: ApiServer,
        state: TunerStore,
        *,
        turns: Turns,
        timeout_seconds: float,
        numbers_interval: Callable[[], float],
    ) -> None:
        self._api_server = api_server
        self._state = state
        self._turns = turns
        self._timeout = timeout_seconds
        self._numbers_interval = numbers_interval
        self._latest: tuple[TunedModel, TunerReport, float] | None = None
        self._events: deque[tuple[TunedModel, Event]] = deque(maxlen=MAX_EVENTS)
        self._sending: asyncio.Task[None] | None = None
        self._written: dict[str, object] = {}
        self._written_at = float("-inf")

    def report(self, model: TunedModel, report: TunerReport, *, now: float) -> None:
        """Write this report in place of an earlier one that waits, and the saved state. now: unix seconds."""
        self._latest = (model, report, now)
        self._send_soon()

    def emit(self, model: TunedModel, events: Iterable[Event]) -> None:
        """Write these Events after the waiting ones."""
        self._events.extend((model, event) for event in events)
        self._send_soon()

    async def emptied(self) -> None:
        """Wait until every write ended."""
        if self._sending is not None:
            await asyncio.wait({self._sending})

    def stop(self) -> None:
        """Cancel the waiting writes."""
        if self._sending is not None:
            self._sending.cancel()

    async def close(self) -> None:
        """Cancel the waiting writes, and write the saved state.

        Raises:
            Exception: the error of the write.
        """
        self.stop()
        await self.emptied()
        await self._state.flush(interval=0.0)

    def _send_soon(self) -> None:
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        while self._latest is not None or self._events:
            async with self._turns.turn():
                await self._send_waiting()

    async def _send_waiting(self) -> None:
        latest, self._latest = self._latest, None
        if latest is not None:
            await self._attempt("status", latest[0], self._apply_status(*latest))
        while self._events:
            model, event = self._events.popleft()
            writing = self._api_server.event(model, event.reason, event.note)
            await self._attempt(f"event {event.reason}", model, writing)
        if latest is not None:
            saving = self._state.flush(interval=self._numbers_interval())
            await self._attempt("tuner state", latest[0], saving)

    async def _apply_status(self, model: TunedModel, report: TunerReport, now: float) -> None:
        part = report.to_wire()
        if part == self._written:
            return
        happened = _without_numbers(part) != _without_numbers(self._written)
        # Negative after a clock that was ahead.
        if not happened and 0 <= now - self._written_at < self._numbers_interval():
            return
        await self._api_server.apply_status(model, part)
        self._written, self._written_at = part, now

    async def _attempt(self, what: str, model: TunedModel, writing: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await writing
        except TimeoutError:
            log.warning("%s of %s was not written within %g s", what, model.key, self._timeout)
        except ClusterError as error:
            log.warning("%s of %s was not written: %s", what, model.key, error)
        except Exception:  # supervision: a defect in one write must not stop all later ones
            log.exception("%s of %s was not written", what, model.key)


def _without_numbers(part: dict[str, object]) -> object:
    """The part of a status whose change is written at once: conditions, schedules and decisions.

    The message of TuningActive belongs to it, because a user waits for the result of an annotation.
    """
    if not part:
        return None
    conditions, speculation = part["conditions"], part["speculation"]
    assert isinstance(conditions, list)
    assert isinstance(speculation, dict)
    active = ConditionType.TUNING_ACTIVE
    return (
        [(c["type"], c["status"], c["reason"], c["type"] == active and c["message"]) for c in conditions],
        [speculation.get(name) for name in ("state", "epoch", "scheduleSummary", "appliedReplicas")],
        part["decisions"],
    )
