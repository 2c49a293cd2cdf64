"""An event loop on a thread of its own: what waits or computes there delays nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Answer = TypeVar("Answer")


class LoopThread:
    """Runs coroutines for other event loops.

    A lookup of a name cannot be cancelled, only left alone. All lookups share one thread: one that hangs
    makes later ones wait, within the time of their callers, and never takes a second thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._lookups = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-lookup")
        self._loop.set_default_executor(self._lookups)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Coroutine[object, object, Answer]) -> Answer:
        """What `work` returns or raises; a caller that is cancelled cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        """End the thread, without waiting for a lookup that hangs."""
        self._lookups.shutdown(wait=False, cancel_futures=True)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()
