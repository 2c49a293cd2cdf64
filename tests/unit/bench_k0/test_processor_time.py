"""What a process had of the processors."""

from __future__ import annotations

import os
import threading
import time

from tests.contract.processes import processor_seconds


def test_work_counts_in_all_threads_and_waiting_does_not() -> None:
    worked = 0.05

    def work() -> None:
        until = time.thread_time() + worked
        while time.thread_time() < until:
            pass

    def both() -> None:
        work()
        finished.set()
        ended.wait()

    before = processor_seconds(os.getpid())
    finished, ended = threading.Event(), threading.Event()
    other = threading.Thread(target=both)
    other.start()
    work()
    finished.wait()
    counted = processor_seconds(os.getpid()) - before
    ended.set()
    other.join()
    assert 2 * worked <= counted < 10 * worked
