"""Programs that a command starts, and ends before it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

_END_SECONDS = 5.0


@asynccontextmanager
async def running(command: Sequence[str]) -> AsyncIterator[Process]:
    """The program in a process group of its own; after the block all its processes are gone.

    Raises:
        FileNotFoundError: the program does not exist.
    """
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    try:
        yield process
    finally:
        await _end(process)


async def _end(process: Process) -> None:
    _signal(process, signal.SIGTERM)
    try:
        await asyncio.wait_for(process.communicate(), _END_SECONDS)
    except TimeoutError:
        _signal(process, signal.SIGKILL)
        await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    """Signal the children too, which may outlive the program."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
