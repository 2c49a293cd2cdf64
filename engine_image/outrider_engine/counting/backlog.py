"""Work of steps that can wait: done in batches, or as soon as a request needs its result.

Code that runs once in a step of ten milliseconds finds the processor's caches cold. It takes several times as
long as in a row.
"""

from __future__ import annotations

from collections.abc import Callable

MOST_WAITING = 64
"""Pieces of work: two of each step."""


class Backlog:
    """Work in the order in which it came. Runs on the engine core's thread.

    failed: receives the error of a piece of work. The work behind it is dropped.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._waiting: list[tuple[Callable[..., None], tuple[object, ...]]] = []

    @property
    def is_full(self) -> bool:
        """Whether the limit of waiting work is reached."""
        return len(self._waiting) >= MOST_WAITING

    def put(self, work: Callable[..., None], *args: object) -> None:
        """Have this done later."""
        self._waiting.append((work, args))

    def work_off(self) -> None:
        """Do everything that waits. Never raises."""
        waiting, self._waiting = self._waiting, []
        try:
            for work, args in waiting:
                work(*args)
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self._failed(error)
