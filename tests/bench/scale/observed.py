"""The operator with clocks: how long its questions to engines, its ticks and Python's garbage collections
take, and how late its loop is.

``python -m tests.bench.scale.observed FILE run …`` runs ``outrider run …`` and writes JSON lines to the file.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

from outrider.cli.main import app
from outrider.controller import process
from outrider.controller.settings import Settings
from outrider.controller.tune.tuning_loop import TuningLoop
from outrider.engine.client import EngineAddress, EngineClient

_SAMPLE_SECONDS = 0.05

Method = Callable[..., Awaitable[Any]]


class Clocks:
    """What was seen since the last line."""

    def __init__(self) -> None:
        self.seen: dict[str, list[object]] = {}
        self._collecting_since = (0.0, 0.0)

    def collected(self, phase: str, info: Mapping[str, int]) -> None:
        """Record a garbage collection: seconds, generation, and seconds of CPU. A callback of `gc.callbacks`.

        Its seconds contain waits for a core and for Python's lock, which each callback may release.
        """
        if phase == "start":
            self._collecting_since = time.perf_counter(), time.thread_time()
            return
        began, cpu = self._collecting_since
        took, cpu = round(time.perf_counter() - began, 5), round(time.thread_time() - cpu, 5)
        self.seen.setdefault("gc", []).append((took, info["generation"], cpu))

    def timed(
        self, owner: type, name: str, kind: str, where: Callable[..., str] = lambda *_, **__: ""
    ) -> None:
        """Let a method record its seconds, whether it raised, and where, by its arguments."""
        method: Method = getattr(owner, name)

        @functools.wraps(method)
        async def observed(*args: Any, **options: Any) -> Any:
            began, failed = time.perf_counter(), True
            try:
                result = await method(*args, **options)
                failed = False
                return result
            finally:
                took = round(time.perf_counter() - began, 5)
                self.seen.setdefault(kind, []).append((took, failed, where(*args, **options)))

        setattr(owner, name, observed)

    async def write_forever(self, file: TextIO) -> None:
        """One line a second."""
        loop, written, late = asyncio.get_running_loop(), time.monotonic(), 0.0
        while True:
            due = loop.time() + _SAMPLE_SECONDS
            await asyncio.sleep(_SAMPLE_SECONDS)
            late = max(late, loop.time() - due)
            if time.monotonic() - written >= 1:
                file.write(
                    json.dumps({"at": round(time.time(), 3), "late": round(late, 4), **self.seen}) + "\n"
                )
                self.seen.clear()
                written, late = time.monotonic(), 0.0


def _address(_: EngineClient, engine: EngineAddress, *__: object) -> str:
    """The address of the pod that is asked."""
    return urlsplit(engine.url).hostname or ""


def main(file: Path, arguments: list[str]) -> None:
    clocks = Clocks()
    clocks.timed(EngineClient, "push", "push", _address)
    clocks.timed(EngineClient, "state", "state", _address)
    clocks.timed(TuningLoop, "tick", "tick")
    clocks.timed(TuningLoop, "resume", "resume")
    operate = process.operate

    async def observed(settings: Settings, *args: Any, **options: Any) -> None:
        with file.open("a", buffering=1) as stream:
            writing = asyncio.create_task(clocks.write_forever(stream))
            gc.callbacks.append(clocks.collected)
            try:
                await operate(settings, *args, **options)
            finally:
                gc.callbacks.remove(clocks.collected)
                writing.cancel()

    process.operate = observed
    app(arguments)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
