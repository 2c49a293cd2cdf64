"""The cores of all engines on one processor, and everything else on the others.

A core computes on one thread, which the kernel leaves for long on the processor where it happened to begin:
so no engine has one of its own that may be faster.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.bench.k0.runs import CORE
from tests.contract.engine import Engine
from tests.contract.processes import pids


@contextmanager
def settled(engines: Iterable[Engine]) -> Iterator[None]:
    """Bind all threads of the engines, and this process for a while.

    Raises:
        RuntimeError: there is one processor only.
    """
    everywhere = sorted(os.sched_getaffinity(0))
    *others, for_cores = everywhere
    if not others:
        raise RuntimeError("engines cannot be compared on one processor: clients would take it from them")
    for engine in engines:
        cores = pids(engine, CORE)
        for pid in pids(engine, ""):
            _bind(pid, [for_cores] if pid in cores else others)
    _bind(os.getpid(), others)
    try:
        yield
    finally:
        _bind(os.getpid(), everywhere)


def _bind(pid: int, processors: Collection[int]) -> None:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):  # it ended while it was looked at
            os.sched_setaffinity(int(thread.name), processors)
