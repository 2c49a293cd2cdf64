"""An event loop on a thread of its own, so that what runs there never waits for work on another loop.

Python lets one thread compute at a time and switches every few milliseconds. Code that keeps the
interpreter's lock for longer, such as one regular expression, delays all threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, TypeVar

ResultT = TypeVar("ResultT")

_STOP_SECONDS = 5.0


class ThreadEnded(Exception):
    """The thread ended before the work that was given to it."""


class LoopThread:
    """Runs coroutines for other loops, from the entry of its context, or `start`, to the end.

    What still runs at the end is cancelled. A thread that does not end then is left behind; it does not
    keep the process alive.

    executor: for what blocks in these coroutines, such as lookups of names; by default asyncio's own.
    """

    def __init__(self, name: str, *, executor: ThreadPoolExecutor | None = None) -> None:
        self.name = name
        self._loop = asyncio.new_event_loop()
        if executor is not None:
            self._loop.set_default_executor(executor)
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._error: BaseException | None = None
        self._handing_over = threading.Lock()
        self._given: set[Future[Any]] = set()
        self._over = False

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await asyncio.to_thread(self._thread.join, _STOP_SECONDS)

    def start(self) -> None:
        """Take work from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End soon, without waiting for it."""
        self.call(self._loop.stop)

    @property
    def runs(self) -> bool:
        """It takes work."""
        return self._thread.is_alive() and not self._over

    async def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Its result. Where the caller is cancelled, so is the work, and nobody waits for its end.

        Raises:
            ThreadEnded: instead of waiting for ever.
        """
        caller = asyncio.current_task()
        try:
            return await asyncio.wrap_future(self._give(work))
        except asyncio.CancelledError:
            if caller is not None and caller.cancelling():
                raise
            raise self._ended() from self._error

    def _give(self, work: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        with self._handing_over:
            if not self.runs:
                work.close()
                raise self._ended() from self._error
            given = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._given.add(given)
        given.add_done_callback(self._given.discard)
        return given

    def call(self, function: Callable[[], object]) -> None:
        """Call it there soon; never where the thread has ended."""
        with self._handing_over:
            if self.runs:
                self._loop.call_soon_threadsafe(function)

    def _work(self) -> None:
        try:
            self._loop.run_forever()
        except BaseException as error:  # noqa: BLE001 - whatever ends the thread is raised where it is missed
            self._error = error
        with self._handing_over:
            self._over = True
        self._cancel_all()
        self._loop.close()
        for given in list(self._given):
            given.cancel()

    def _ended(self) -> ThreadEnded:
        why = "" if self._error is None else f": {type(self._error).__name__}: {self._error}"
        return ThreadEnded(f"the thread {self.name} has ended{why}")

    def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=_STOP_SECONDS))
