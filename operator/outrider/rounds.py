"""Work side by side that recurs in rounds, such as a question to each pod, of which some may be silent.

A silent one must not delay the next round of the others, and must not have two pieces of work at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Hashable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

PATIENCE_SECONDS = 1.0
"""Time without the end of any piece of work, after which a round is over."""
_LOOKS = 4
"""Looks at a round within the patience. A loop that was blocked looks once, and not as often as it could."""


@dataclass(slots=True)
class _Round(Generic[KeyT]):
    """What the round waits for still, and whether it is over."""

    waited_for: set[KeyT]
    ends: int = 0
    over: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def ended(self, key: KeyT) -> None:
        self.ends += 1
        self.waited_for.discard(key)
        if not self.waited_for:
            self.done.set()


class Rounds(Generic[KeyT]):
    """Runs one piece of work for each key, in rounds that do not wait for what is silent.

    A round is over when its work ended, or when none of it ended for `patience_seconds`. Work that outlasts
    its round continues, and its key is late: no round begins other work of the key meanwhile. The next one
    does not wait for it, unless all its keys are late. A key is late until its work ends within a round.
    """

    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._patience = patience_seconds
        self._running: dict[KeyT, asyncio.Task[None]] = {}
        self._late: set[KeyT] = set()

    @property
    def running(self) -> Set[KeyT]:
        """The keys whose work runs."""
        return self._running.keys()

    @property
    def late(self) -> Set[KeyT]:
        """The keys whose last work outlasted its round."""
        return self._late

    def keep(self, keys: Container[KeyT]) -> None:
        """Drop the other keys of `late`. Their work continues."""
        self._late = {key for key in self._late if key in keys}

    async def run(self, works: Mapping[KeyT, Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """One round: begin this work, except for keys whose work runs, and wait until the round is over.

        Each work reports its own errors; one that raises counts as ended.
        """
        late = [key for key in works if key in self._late]
        prompt = [key for key in works if key not in self._late]
        keys = [key for key in (*late, *prompt) if key not in self._running]
        current = _Round(set(keys).difference(late) or set(keys))
        try:
            for key in keys:
                self._running[key] = asyncio.create_task(self._work(key, works[key], current))
                await asyncio.sleep(0)  # let other tasks run between two starts
            await self._wait(current)
        finally:
            current.over = True

    async def ended(self) -> None:
        """Wait until all work ended."""
        if self._running:
            await asyncio.wait(list(self._running.values()))

    async def aclose(self) -> None:
        """Cancel all work, and wait until it ended."""
        for task in self._running.values():
            task.cancel()
        await self.ended()

    async def _work(
        self, key: KeyT, work: Callable[[], Coroutine[Any, Any, None]], current: _Round[KeyT]
    ) -> None:
        try:
            await work()
        finally:
            del self._running[key]
            (self._late.add if current.over else self._late.discard)(key)
            current.ended(key)

    async def _wait(self, current: _Round[KeyT]) -> None:
        quiet = 0
        while current.waited_for and quiet < _LOOKS:
            before = current.ends
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience / _LOOKS):
                    await current.done.wait()
            quiet = 0 if current.ends > before else quiet + 1
