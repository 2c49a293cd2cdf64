"""An event loop on a thread of its own, for servers that a test asks and changes from its own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
_SECONDS = 60.0


class Loop:
    """A loop that runs."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_SECONDS)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it there until the loop ends."""
        self.loop.call_soon_threadsafe(lambda: self._tasks.append(self.loop.create_task(work)))

    async def end(self) -> None:
        """Cancel what was started, and what servers left behind."""
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


@contextmanager
def a_loop() -> Iterator[Loop]:
    """In the block it runs."""
    loop = Loop()
    thread = threading.Thread(target=loop.loop.run_forever, name="servers", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.run(loop.end())
        loop.loop.call_soon_threadsafe(loop.loop.stop)
        thread.join(_SECONDS)
