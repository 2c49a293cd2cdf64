"""The operator's process, forked from a Python that has imported the operator.

Half of a start is imports, and a table of kills starts the operator hundreds of times.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

_PACKAGES = ["outrider.cli.main", "outrider.controller.process", "prometheus_client", "kopf"]
_END_SECONDS = 20.0


TASKS = "FAULTS_TASKS"
"""Variable with a file, to which the process writes the number of tasks of its main loop each second."""


def _operate(environment: dict[str, str], log: str) -> None:
    from outrider.cli.main import app
    from outrider.controller import process

    with Path(log).open("ab") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    if TASKS in environment:
        operate, file = process.operate, Path(environment[TASKS])

        async def counted(*args: Any, **options: Any) -> None:
            counting = asyncio.create_task(_count_tasks(file))
            try:
                await operate(*args, **options)
            finally:
                counting.cancel()

        process.operate = counted
    sys.argv = ["outrider", "run"]
    app()


async def _count_tasks(file: Path) -> None:
    with file.open("a", buffering=1) as stream:
        while True:
            stream.write(f"{len(asyncio.all_tasks())}\n")
            await asyncio.sleep(1.0)


class WarmOperator:
    """One process after the other with the same settings.

    environment: with OUTRIDER_… and KUBECONFIG. log: all of them append to it.
    """

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PACKAGES)
        self.environment = dict(environment)
        self._log = log
        self._process: ForkServerProcess | None = None
        self.starts = 0

    def start(self) -> None:
        """Begin another process; the one before has ended."""
        process = self._context.Process(
            target=_operate, args=(self.environment, str(self._log)), daemon=True, name="operator"
        )
        process.start()
        self._process, self.starts = process, self.starts + 1

    @property
    def alive(self) -> bool:
        """Whether the last one runs."""
        return self._process is not None and self._process.is_alive()

    @property
    def pid(self) -> int:
        """Of the last one."""
        assert self._process is not None
        assert self._process.pid is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What all of them wrote."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def kill(self) -> None:
        """SIGKILL. Any thread may call it."""
        if self._process is not None:
            self._process.kill()

    def buried(self) -> bool:
        """Wait a moment for the end of a process that was killed; True once it is gone."""
        assert self._process is not None
        self._process.join(1.0)
        return not self._process.is_alive()

    def stop(self) -> None:
        """End it as Kubernetes would."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.join(_END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(_END_SECONDS)
