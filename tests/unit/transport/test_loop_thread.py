from __future__ import annotations

import asyncio
import threading

import pytest

from outrider.loop_thread import LoopThread, ThreadEnded


async def _name() -> str:
    return threading.current_thread().name


async def _for_ever(ended: threading.Event | None = None, began: threading.Event | None = None) -> None:
    if began is not None:
        began.set()
    try:
        await asyncio.Event().wait()
    finally:
        if ended is not None:
            ended.set()


async def _fail() -> None:
    raise ValueError("a defect")


async def test_work_runs_on_the_thread_and_its_result_comes_back() -> None:
    async with LoopThread("apart") as thread:
        assert await thread.run(_name()) == "apart"


async def test_an_error_of_the_work_comes_back() -> None:
    async with LoopThread("apart") as thread:
        with pytest.raises(ValueError, match="a defect"):
            await thread.run(_fail())
        assert thread.runs


async def test_work_is_cancelled_with_its_caller() -> None:
    ended = threading.Event()
    async with LoopThread("apart") as thread:
        began = threading.Event()
        caller = asyncio.create_task(thread.run(_for_ever(ended, began)))
        assert await asyncio.to_thread(began.wait, 30)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert await asyncio.to_thread(ended.wait, 30)


async def test_running_work_is_cancelled_at_the_end_and_its_caller_gets_the_error() -> None:
    ended, began = threading.Event(), threading.Event()
    async with LoopThread("apart") as thread:
        caller = asyncio.create_task(thread.run(_for_ever(ended, began)))
        assert await asyncio.to_thread(began.wait, 30)
    assert ended.is_set()
    assert not thread.runs
    with pytest.raises(ThreadEnded, match=r"the thread apart has ended$"):
        await caller


async def test_an_ended_thread_takes_no_work() -> None:
    async with LoopThread("apart") as thread:
        pass
    with pytest.raises(ThreadEnded):
        await thread.run(_name())
    thread.call(pytest.fail)


async def test_callers_of_a_thread_that_crashed_learn_why() -> None:
    async with LoopThread("apart") as thread:

        async def crash() -> None:
            raise SystemExit("a defect")

        with pytest.raises((ThreadEnded, SystemExit)):
            await thread.run(crash())
        with pytest.raises(ThreadEnded, match="SystemExit: a defect"):
            await thread.run(_for_ever())


async def test_a_hanging_thread_delays_no_caller() -> None:
    go_on = threading.Event()
    async with LoopThread("apart", stop_seconds=0.1) as thread:
        thread.call(lambda: go_on.wait(60))
    assert thread.runs
    (left,) = (each for each in threading.enumerate() if each.name == "apart")
    assert left.daemon, "nor the process"
    go_on.set()
    await asyncio.to_thread(left.join, 30)
