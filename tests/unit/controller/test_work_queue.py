from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from outrider.controller.work_queue import WorkQueue, backoff_seconds


@dataclass
class Clock:
    """Collects what was asked for later, and calls it when told."""

    asked: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    def later(self, delay: float, callback: Callable[[], object], /) -> object:
        self.asked.append((delay, callback))
        return None

    def pass_time(self) -> None:
        asked, self.asked = self.asked, []
        for _, callback in asked:
            callback()

    @property
    def delays(self) -> list[float]:
        return [delay for delay, _ in self.asked]


@dataclass
class Work:
    """Work that waits for permission, and tells what it was asked to do."""

    again: float | None = None
    error: Exception | None = None
    done: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    allowed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, key: str) -> float | None:
        self.started.append(key)
        await self.allowed.wait()
        if self.error is not None:
            raise self.error
        self.done.append(key)
        return self.again


@asynccontextmanager
async def running(
    work: Work, *, clock: Clock | None = None, concurrency: int = 4
) -> AsyncIterator[WorkQueue[str]]:
    queue = WorkQueue[str](work, concurrency=concurrency, later=(clock or Clock()).later)
    task = asyncio.create_task(queue.run())
    try:
        yield queue
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def settle() -> None:
    """Let every task run until it waits for something outside."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_key_that_is_added_twice_is_worked_on_once() -> None:
    work = Work()
    work.allowed.set()
    async with running(work) as queue:
        queue.add("a")
        queue.add("a")
        await settle()
    assert work.done == ["a"]


async def test_a_key_that_is_added_during_its_work_is_worked_on_again() -> None:
    work = Work()
    async with running(work) as queue:
        queue.add("a")
        await settle()
        queue.add("a")
        queue.add("a")
        await settle()
        assert work.started == ["a"]
        work.allowed.set()
        await settle()
    assert work.done == ["a", "a"]


async def test_works_on_no_more_keys_at_once_than_allowed() -> None:
    work = Work()
    async with running(work, concurrency=2) as queue:
        for key in "abc":
            queue.add(key)
        await settle()
        assert work.started == ["a", "b"]
        work.allowed.set()
        await settle()
    assert work.done == ["a", "b", "c"]


async def test_backs_off_longer_with_every_failure_of_a_key() -> None:
    clock, work = Clock(), Work(error=RuntimeError("no"))
    work.allowed.set()
    seen = []
    async with running(work, clock=clock) as queue:
        queue.add("a")
        for _ in range(3):
            await settle()
            seen += clock.delays
            clock.pass_time()
    assert seen == [0.5, 1.0, 2.0]


async def test_a_success_forgets_earlier_failures() -> None:
    clock, work = Clock(), Work(error=RuntimeError("no"))
    work.allowed.set()
    async with running(work, clock=clock) as queue:
        queue.add("a")
        await settle()
        clock.pass_time()
        await settle()
        work.error = None
        clock.pass_time()
        await settle()
        work.error = RuntimeError("no")
        queue.add("a")
        await settle()
        assert clock.delays == [0.5]


async def test_a_failing_key_does_not_hold_up_another() -> None:
    work = Work()

    async def work_on(key: str) -> None:
        if key == "bad":
            raise RuntimeError("no")
        work.done.append(key)

    queue = WorkQueue[str](work_on, concurrency=1, later=Clock().later)
    task = asyncio.create_task(queue.run())
    queue.add("bad")
    queue.add("good")
    await settle()
    task.cancel()
    assert work.done == ["good"]


async def test_waits_as_long_as_an_error_asks() -> None:
    class Busy(Exception):
        retry_after = 7.0

    clock, work = Clock(), Work(error=Busy())
    work.allowed.set()
    async with running(work, clock=clock) as queue:
        queue.add("a")
        await settle()
    assert clock.delays == [7.0]


async def test_an_error_that_asks_for_less_does_not_shorten_the_back_off() -> None:
    class Busy(Exception):
        retry_after = 1.0

    clock, work = Clock(), Work(error=Busy())
    work.allowed.set()
    seen = []
    async with running(work, clock=clock) as queue:
        queue.add("a")
        for _ in range(4):
            await settle()
            seen += clock.delays
            clock.pass_time()
    assert seen == [1.0, 1.0, 2.0, 4.0]


async def test_comes_back_when_the_work_asks_for_it() -> None:
    clock, work = Clock(), Work(again=30.0)
    work.allowed.set()
    async with running(work, clock=clock) as queue:
        queue.add("a")
        await settle()
        assert clock.delays == [30.0]
        clock.pass_time()
        await settle()
    assert work.done == ["a", "a"]


async def test_timers_of_a_key_do_not_pile_up() -> None:
    clock, work = Clock(), Work(again=30.0)
    work.allowed.set()
    async with running(work, clock=clock) as queue:
        for _ in range(5):
            queue.add("a")
            await settle()
        clock.pass_time()
        await settle()
    assert work.done == ["a"] * 6


@pytest.mark.parametrize("failures", [1, 9, 200])
def test_the_back_off_is_bounded(failures: int) -> None:
    assert 0.5 <= backoff_seconds(failures) <= 120
