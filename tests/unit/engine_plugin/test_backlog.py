"""Work that waits: in its order, all of it, and no fault ends the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from outrider_engine.counting.measure import MAX_WAITING, Backlog


def test_work_waits_until_it_is_worked_off_in_its_order() -> None:
    done: list[int] = []
    backlog = Backlog(failed=lambda _: None)
    for number in range(3):
        backlog.put(done.append, number)
    assert done == []
    backlog.work_off()
    assert done == [0, 1, 2]


def test_nothing_is_done_twice() -> None:
    done: list[int] = []
    backlog = Backlog(failed=lambda _: None)
    backlog.put(done.append, 1)
    backlog.work_off()
    backlog.work_off()
    assert done == [1]


def test_it_is_full_after_so_much_and_empty_again_when_it_was_worked_off() -> None:
    backlog = Backlog(failed=lambda _: None)
    filling = []
    for _ in range(MAX_WAITING):
        filling.append(backlog.is_full)
        backlog.put(lambda: None)
    assert (any(filling), backlog.is_full) == (False, True)
    backlog.work_off()
    assert not backlog.is_full


def test_a_fault_is_told_and_drops_what_waited_behind_it() -> None:
    done: list[int] = []
    told: list[Exception] = []
    backlog = Backlog(failed=told.append)
    works: list[Callable[[], Any]] = [lambda: done.append(1), lambda: done[9], lambda: done.append(2)]
    for work in works:
        backlog.put(work)
    backlog.work_off()
    backlog.work_off()
    assert (done, [type(error) for error in told]) == ([1], [IndexError])
