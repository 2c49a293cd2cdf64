"""To which part of a step the timers charge a moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.bench.k0.timers import Stopwatch


class Clock:
    """Stands still until it is moved on."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def takes(self, nanoseconds: int, *called: Callable[[], None]) -> Callable[[], None]:
        """A function that takes this long, half of it before it calls others."""

        def function() -> None:
            self.now += nanoseconds // 2
            for other in called:
                other()
            self.now += nanoseconds - nanoseconds // 2

        return function


def test_a_part_is_charged_without_the_parts_that_it_calls() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    sampler = watch.timed("sampler", clock.takes(5))
    watch.timed("worker", clock.takes(100, sampler, clock.takes(7), sampler))()
    watch.end_lap()
    assert watch.nanoseconds == {"worker": 107, "sampler": 10}
    assert watch.calls == {"worker": 1, "sampler": 2}


def test_a_part_around_another_of_the_same_function_is_charged_with_what_it_adds() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    original = watch.timed("scheduler", clock.takes(50))
    watch.timed("plugin", clock.takes(3, original))()
    watch.end_lap()
    assert watch.nanoseconds == {"scheduler": 50, "plugin": 3}


def test_what_runs_while_no_part_does_is_charged_to_none() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    timed = watch.timed("step", clock.takes(10))
    timed()
    clock.now += 1000
    timed()
    watch.end_lap()
    assert watch.nanoseconds == {"step": 20}


def test_the_calling_part_is_charged_again_after_a_failure() -> None:
    clock = Clock()
    watch = Stopwatch(clock)

    def fails() -> None:
        clock.now += 4
        raise LookupError

    def catches() -> None:
        with pytest.raises(LookupError):
            inner()
        clock.now += 6

    inner = watch.timed("inner", fails)
    watch.timed("outer", catches)()
    watch.end_lap()
    assert watch.nanoseconds == {"inner": 4, "outer": 6}
