from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from outrider.controller.work_queue import WorkQueue, backoff_seconds


@dataclass
class Clock:
    """Collects what was scheduled, and calls it on demand."""

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
    """Work that waits for permission, and records its requests."""

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
    work: Work, *, clock: Clock | None = None, concurrency: int = 4, pause: float = 0.0
) -> AsyncIterator[WorkQueue[str]]:
    queue = WorkQueue[str](work, concurrency=concurrency, pause=pause, later=(clock or Clock()).later)
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


async def test_a_key_that_changes_often_is_worked_on_once_more_after_a_pause() -> None:
    clock, work = Clock(), Work()
    work.allowed.set()
    async with running(work, clock=clock, concurrency=1, pause=1.0) as queue:
        queue.add("a")
        await settle()
        queue.add("a")
        queue.add("b")
        queue.add("a")
        await settle()
        assert work.done == ["a", "b"]
        assert clock.delays == [1.0, 1.0]
        clock.pass_time()
        await settle()
        assert work.done == ["a", "b", "a"]
        clock.pass_time()
        await settle()
    assert work.done == ["a", "b", "a"]


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


class Namespaced:
    """Work on keys such as ``ns/name``. What begins with ``hang`` waits until the test ends it."""

    def __init__(self, concurrency: int = 8) -> None:
        self.started: list[str] = []
        self.ends: dict[str, asyncio.Future[Exception | None]] = {}
        self.clock = Clock()
        self.queue = WorkQueue[str](
            self._work,
            concurrency=concurrency,
            group=lambda key: key.partition("/")[0],
            first=lambda key: "/new" in key,
            later=self.clock.later,
        )

    async def _work(self, key: str) -> None:
        self.started.append(key)
        if key.startswith("hang"):
            end = self.ends[key] = asyncio.get_running_loop().create_future()
            error = await end
            if error is not None:
                raise error

    async def add(self, *keys: str) -> None:
        for key in keys:
            self.queue.add(key)
        await settle()

    async def end(self, error: Exception | None = None) -> list[str]:
        """All work that hangs ends so; answers what hangs then."""
        ends, self.ends = self.ends, {}
        for end in ends.values():
            end.set_result(error)
        await settle()
        return self.hanging

    @property
    def hanging(self) -> list[str]:
        return sorted(self.ends)


@asynccontextmanager
async def namespaces(concurrency: int = 8) -> AsyncIterator[Namespaced]:
    work = Namespaced(concurrency)
    task = asyncio.create_task(work.queue.run())
    try:
        yield work
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def many(namespace: str, count: int) -> list[str]:
    return [f"{namespace}/{number:02}" for number in range(count)]


async def test_a_model_behind_forty_whose_webhook_hangs_is_served_at_once() -> None:
    async with namespaces() as work:
        await work.add(*many("hang", 40))
        assert len(work.hanging) == 4
        await work.add("good/m")
        assert work.started[-1] == "good/m"


@pytest.mark.parametrize(("concurrency", "held"), [(1, 1), (2, 1), (3, 1), (4, 2), (9, 4)])
async def test_a_namespace_holds_at_most_half_of_the_slots(concurrency: int, held: int) -> None:
    async with namespaces(concurrency) as work:
        await work.add(*many("hang", 40))
        assert len(work.hanging) == held


async def test_a_slot_that_a_namespace_gives_back_goes_to_its_next_model() -> None:
    async with namespaces(2) as work:
        await work.add("hang/1", "hang/2")
        assert await work.end() == ["hang/2"]


async def test_all_slots_are_used_where_enough_namespaces_wait() -> None:
    async with namespaces(5) as work:
        for namespace in ("hang-a", "hang-b", "hang-c"):
            await work.add(*many(namespace, 9))
        assert work.hanging == [*many("hang-a", 2), *many("hang-b", 2), "hang-c/00"]


async def test_namespaces_take_turns() -> None:
    async with namespaces(1) as work:
        await work.add("hang/0", "a/1", "a/2", "a/3", "b/1", "b/2", "c/1")
        await work.end()
        assert work.started == ["hang/0", "a/1", "b/1", "c/1", "a/2", "b/2", "a/3"]


async def test_new_models_of_a_namespace_go_before_its_others() -> None:
    async with namespaces(1) as work:
        await work.add("hang/0", "a/old-1", "a/old-2", "b/old-1", "a/new-1", "a/new-2")
        await work.end()
        assert work.started == ["hang/0", "a/new-1", "b/old-1", "a/new-2", "a/old-1", "a/old-2"]


async def test_namespaces_whose_work_took_too_long_leave_half_of_the_slots_to_others() -> None:
    async with namespaces() as work:
        await work.add(*many("hang-a", 8), *many("hang-b", 8))
        assert len(work.hanging) == 8
        assert len(await work.end(TimeoutError())) == 4
        await work.add("good/m")
        assert work.started[-1] == "good/m"


async def test_slow_namespaces_take_turns_as_well() -> None:
    async with namespaces(2) as work:
        await work.add(*many("hang-a", 3), *many("hang-b", 3))
        order = [await work.end(TimeoutError()) for _ in range(4)]
        assert order == [["hang-a/01"], ["hang-b/01"], ["hang-a/02"], ["hang-b/02"]]


async def test_a_namespace_is_slow_until_each_of_its_models_was_worked_on_in_time() -> None:
    async with namespaces(4) as work:
        await work.add("hang-a/1", "hang-a/2", "hang-b/1", "hang-b/2")
        assert await work.end(TimeoutError()) == []

        async def held() -> int:
            await work.add(*many("hang-a", 5), *many("hang-b", 5))
            return len(work.hanging)

        assert await held() == 2
        await work.end()
        work.clock.pass_time()
        for _ in range(12):
            await work.end()
        assert await held() == 4


async def test_an_error_that_comes_in_time_makes_no_namespace_slow() -> None:
    async with namespaces(4) as work:
        await work.add("hang-a/1", "hang-a/2", "hang-b/1", "hang-b/2")
        await work.end(RuntimeError("no"))
        await work.add(*many("hang-a", 5), *many("hang-b", 5))
        assert len(work.hanging) == 4


async def test_without_groups_every_slot_may_be_held() -> None:
    work = Work(error=TimeoutError())
    async with running(work, concurrency=3) as queue:
        for key in "abcdef":
            queue.add(key)
        await settle()
        assert work.started == ["a", "b", "c"]
        work.allowed.set()
        await settle()
    assert work.started == list("abcdef")


async def test_counts_what_waits_and_not_what_is_worked_on() -> None:
    async with namespaces(2) as work:
        await work.add(*many("hang", 3))
        assert len(work.queue) == 2


async def test_a_timer_from_before_the_last_work_wakes_no_key() -> None:
    clock, work = Clock(), Work(again=30.0)
    work.allowed.set()
    async with running(work, clock=clock) as queue:
        queue.add("a")
        await settle()
        work.again = None
        queue.add("a")
        await settle()
        clock.pass_time()
        await settle()
    assert work.done == ["a", "a"]


@pytest.mark.parametrize(("failures", "seconds"), [(1, 0.5), (2, 1.0), (8, 64.0), (9, 120.0), (200, 120.0)])
def test_the_back_off_is_doubled_and_bounded(failures: int, seconds: float) -> None:
    assert backoff_seconds(failures) == seconds
