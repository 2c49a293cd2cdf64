"""A work queue: each key waits once, has one worker at a time, and its own backoff.

Keys belong to groups, such as the namespaces of models. Groups take turns, and no group can hold all slots.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, Protocol, TypeVar

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

_FIRST_DELAY_SECONDS = 0.5
_MAX_DELAY_SECONDS = 120.0


class Later(Protocol):
    """Calls back after a delay, as `asyncio.AbstractEventLoop.call_later` does."""

    def __call__(self, delay: float, callback: Callable[[], object], /) -> object:
        """Call ``callback`` after ``delay`` seconds."""


def backoff_seconds(failures: int) -> float:
    """Delay after the n-th failure in a row: 0.5 s, doubled each time, at most two minutes."""
    return min(_FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 16), _MAX_DELAY_SECONDS)


class WorkQueue(Generic[K]):
    """Runs ``work`` for every added key.

    A key that is added while it waits is worked on once. One that is added during its work, or during the
    pause afterwards, is worked on once more. ``work`` returns the seconds until the key is requeued, or None.
    After an error, the key returns after `backoff_seconds`, or later if the error has a ``retry_after``.

    Groups with waiting keys take turns. One group holds at most half of the slots. A group is slow while
    the last work on one of its keys raised TimeoutError. All slow groups together hold at most half of the
    slots, so the other half is free for groups whose work ends in time.

    concurrency: number of slots. With one slot the limits above cannot hold, and groups only take turns.
    pause: minimum seconds from the end of work on a key to the next, so that many changes cause little work.
    group: the group of a key; by default all keys are one group that may hold every slot.
    first: whether a key goes before the others of its group, as a model without objects does.
    later: the clock, for tests; by default the running loop's.
    """

    def __init__(
        self,
        work: Callable[[K], Awaitable[float | None]],
        *,
        concurrency: int,
        pause: float = 0.0,
        group: Callable[[K], Hashable] | None = None,
        first: Callable[[K], bool] = lambda _: False,
        later: Later | None = None,
    ) -> None:
        self._work = work
        self._group: Callable[[K], Hashable] = group or (lambda _: None)
        self._first = first
        self._later = later
        self._pause = pause
        self._turns = _Turns[K](concurrency, most=concurrency if group is None else max(1, concurrency // 2))
        self._changed = asyncio.Event()
        self._waiting: set[K] = set()
        self._active: set[K] = set()
        """Keys that are worked on, or pause afterwards."""
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, object] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._again)

    def add(self, key: K) -> None:
        """Request work on a key. Call it on the loop's thread."""
        if key in self._active:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._turns.add(self._group(key), key, first=self._first(key))
            self._changed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as workers:
            while True:
                key = await self._next()
                self._waiting.discard(key)
                self._active.add(key)
                # The start of work cancels an earlier timer, so that timers do not pile up.
                self._timers.pop(key, None)
                workers.create_task(self._run_one(key))

    async def _next(self) -> K:
        """The next key that may have a slot; waits until there is one."""
        while True:
            self._changed.clear()
            taken = self._turns.take()
            if taken is not None:
                (key,) = taken
                return key
            await self._changed.wait()

    async def _run_one(self, key: K) -> None:
        in_time = True
        try:
            delay = await self._work(key)
            self._failures.pop(key, None)
        except Exception as error:  # noqa: BLE001 - a supervision loop: one key must not stop the others
            in_time = not isinstance(error, TimeoutError)
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay = max(backoff_seconds(failures), getattr(error, "retry_after", None) or 0.0)
            log.warning("%s failed %d times, next attempt in %.1f s: %s", key, failures, delay, error)
        finally:
            self._turns.give_back(self._group(key), key, in_time=in_time)
            self._changed.set()
        if delay is not None:
            self._add_later(key, delay)
        if self._pause:
            self._call_later(self._pause, lambda: self._end_pause(key))
        else:
            self._end_pause(key)

    def _end_pause(self, key: K) -> None:
        self._active.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _add_later(self, key: K, delay: float) -> None:
        timer = self._timers[key] = object()

        def wake() -> None:
            if self._timers.get(key) is timer:
                self.add(key)

        self._call_later(delay, wake)

    def _call_later(self, delay: float, callback: Callable[[], object]) -> None:
        later = self._later or asyncio.get_running_loop().call_later
        later(delay, callback)


class _Turns(Generic[K]):
    """The order in which keys get slots.

    most: maximum slots of one group, and of all slow groups together.
    """

    def __init__(self, slots: int, *, most: int) -> None:
        self._slots = slots
        self._most = most
        self._lines: dict[Hashable, tuple[deque[K], deque[K]]] = {}
        """Waiting keys by group: those that go first, and the others. The next group is first."""
        self._held: Counter[Hashable] = Counter()
        """Slots by group; groups without one are left out."""
        self._late: defaultdict[Hashable, set[K]] = defaultdict(set)
        """The keys whose last work took too long, by slow group."""

    def add(self, group: Hashable, key: K, *, first: bool) -> None:
        firsts, others = self._lines.setdefault(group, (deque(), deque()))
        (firsts if first else others).append(key)

    def take(self) -> tuple[K] | None:
        """The next key, which then holds a slot; None if no waiting key may have one."""
        if self._held.total() >= self._slots:
            return None
        slow_may_start = sum(self._held[group] for group in self._late) < self._most
        for group in self._lines:
            if self._held[group] < self._most and (slow_may_start or group not in self._late):
                return (self._take_from(group),)
        return None

    def _take_from(self, group: Hashable) -> K:
        firsts, others = lines = self._lines.pop(group)
        key = (firsts or others).popleft()
        if firsts or others:  # At the end of the order.
            self._lines[group] = lines
        self._held[group] += 1
        return key

    def give_back(self, group: Hashable, key: K, *, in_time: bool) -> None:
        """Release the slot of a key from `take`. in_time: False makes its group slow."""
        self._held -= Counter([group])
        if not in_time:
            self._late[group].add(key)
        elif group in self._late:
            self._late[group].discard(key)
            if not self._late[group]:
                del self._late[group]
