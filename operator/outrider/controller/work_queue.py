"""A work queue: each key waits once, is worked on by one worker at a time, and backs off alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, Protocol, TypeVar

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

_FIRST_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 120.0


class Later(Protocol):
    """Calls back after a delay, as `asyncio.AbstractEventLoop.call_later` does."""

    def __call__(self, delay: float, callback: Callable[[], object], /) -> object:
        """Call ``callback`` after ``delay`` seconds."""


def backoff_seconds(failures: int) -> float:
    """Delay after the n-th failure in a row: 0.5 s, doubled each time, at most two minutes."""
    return min(_FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 16), _LONGEST_DELAY_SECONDS)


class WorkQueue(Generic[K]):
    """Runs ``work`` for every added key.

    A key that is added while it waits is worked on once; one that is added while it is
    worked on is worked on once more afterwards. ``work`` answers seconds until it wants to
    see the key again, or None; when it raises, the key comes back after `backoff_seconds`, or
    later where the error asks for it by ``retry_after``.

    later: the clock, for tests; by default the running loop's.
    """

    def __init__(
        self,
        work: Callable[[K], Awaitable[float | None]],
        *,
        concurrency: int,
        later: Later | None = None,
    ) -> None:
        self._work = work
        self._slots = asyncio.Semaphore(concurrency)
        self._later = later
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        self._active: set[K] = set()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, object] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Ask for work on a key; call it on the loop's thread."""
        if key in self._active:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as workers:
            while True:
                await self._slots.acquire()
                key = await self._ready.get()
                self._waiting.discard(key)
                self._active.add(key)
                # Work that starts makes an earlier timer pointless; otherwise timers would pile up.
                self._timers.pop(key, None)
                workers.create_task(self._run_one(key))

    async def _run_one(self, key: K) -> None:
        try:
            delay = await self._work(key)
            self._failures.pop(key, None)
        except Exception as error:  # noqa: BLE001 - a supervision loop: one key never stops the others
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay = max(backoff_seconds(failures), getattr(error, "retry_after", None) or 0.0)
            log.warning("%s failed %d times, again in %.1f s: %s", key, failures, delay, error)
        finally:
            self._active.discard(key)
            self._slots.release()
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        elif delay is not None:
            self._add_later(key, delay)

    def _add_later(self, key: K, delay: float) -> None:
        timer = self._timers[key] = object()

        def wake() -> None:
            if self._timers.get(key) is timer:
                self.add(key)

        later = self._later or asyncio.get_running_loop().call_later
        later(delay, wake)
