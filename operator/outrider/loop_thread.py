"""An event loop on its own thread, so that its coroutines never wait for work on another loop.

Python runs one thread at a time and switches every few milliseconds. Code that keeps the interpreter's
lock for longer, such as one regular expression, delays all threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, TypeVar

ResultT = TypeVar("ResultT")


class ThreadEnded(Exception):
    """The thread ended before its work was done."""


class LoopThread:
    """A thread that runs coroutines for other loops, from `start` or entry of its context to the end.

    At the end it cancels what still runs. A thread that does not end then does not keep the process alive.

    executor: for blocking calls in these coroutines, such as name lookups; by default asyncio's own.
    stop_seconds: time for the cancelled coroutines, and for the thread, to end.
    """

    def __init__(
        self, name: str, *, executor: ThreadPoolExecutor | None = None, stop_seconds: float = 5.0
    ) -> None:
        self.name = name
        self._stop_seconds = stop_seconds
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
        await asyncio.to_thread(self._thread.join, self._stop_seconds)

    def start(self) -> None:
        """Start to accept work."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, without waiting for it."""
        self.call(self._loop.stop)

    @property
    def runs(self) -> bool:
        """True if the thread accepts work."""
        return self._thread.is_alive() and not self._over

    async def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine on this thread and return its result.

        Cancelling the caller cancels the work, without waiting for its end.

        Raises:
            ThreadEnded: the thread ended before the work was done.
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
        """Schedule a call on this thread; do nothing if the thread has ended."""
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
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=self._stop_seconds))
