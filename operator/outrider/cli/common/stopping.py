"""Ends a command on a signal, so that it can undo what it changed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

ResultT = TypeVar("ResultT")


class Stopped(Exception):
    """A signal stopped the command, after it undid what it changed."""


def run_until_stopped(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run the work. Ctrl-C, a terminal that closes and an ordinary kill cancel it, and wait for its end.

    A second signal changes nothing, since the work is undoing what it changed.

    Raises:
        Stopped: by one of these signals.
    """

    async def stoppable() -> ResultT:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def stop() -> None:
            if not task.cancelling():
                task.cancel()

        for number in _SIGNALS:
            # Under nohup a terminal that closes is meant to be ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, stop)
        return await task

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError as error:
        raise Stopped("stopped") from error
