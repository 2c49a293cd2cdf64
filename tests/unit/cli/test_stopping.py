"""Commands that are stopped do what they do in the end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from outrider.cli.common.output import CommandError
from outrider.cli.common.processes import run_until_stopped


@contextmanager
def handled(number: signal.Signals, handler: signal.Handlers) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


async def killed_by(number: signal.Signals, done: list[str]) -> str:
    """Sends itself this signal, and once more while it takes something back in the end."""
    try:
        await _killed(number)
        return "went on"
    finally:
        await _killed(number)
        done.append("taken back")


async def _killed(number: signal.Signals) -> None:
    """Some turns of the loop after the signal, in which a handler of it runs."""
    os.kill(os.getpid(), number)
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_does_not_keep_it_from_taking_back_what_it_changed(number: signal.Signals) -> None:
    done: list[str] = []
    # Where tests run in the background of a shell, some signals are ignored from the start.
    with handled(number, signal.SIG_DFL), pytest.raises(CommandError, match="stopped"):
        run_until_stopped(killed_by(number, done))
    assert done == ["taken back"]


def test_under_nohup_a_terminal_that_closes_is_ignored() -> None:
    with handled(signal.SIGHUP, signal.SIG_IGN):
        assert run_until_stopped(killed_by(signal.SIGHUP, [])) == "went on"


def test_what_is_not_stopped_returns_what_it_came_to() -> None:
    async def work() -> int:
        return 7

    assert run_until_stopped(work()) == 7
