"""How every command of ``outrider`` ends, for whoever calls it from a script."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import typer


class ExitCode(IntEnum):
    """The exit codes; `docs/reference/exit-codes.md` has them by command."""

    FINE = 0
    """It was done, and what was asked about is well."""
    NOT_WELL = 1
    """It was done, and what was asked about is not well; the output says what."""
    CANNOT = 2
    """It was not done, or not to its end: bad input, no cluster, no right, no such model. One line says
    what to do; what was measured by then is printed all the same."""


def cannot(command: str, why: Exception | str) -> typer.Exit:
    """Ends a command that cannot do what it was asked for. why: says what to do, in one plain line."""
    say(command, str(why))
    return typer.Exit(ExitCode.CANNOT)


def refused(command: str, lines: Sequence[str]) -> typer.Exit:
    """End a command whose input has mistakes, each on a line of its own."""
    for line in lines:
        say(command, line)
    return typer.Exit(ExitCode.CANNOT)


def say(command: str, complaint: str) -> None:
    """Print one line on standard error. command: empty for ``outrider`` without a command."""
    typer.echo(f"{f'outrider {command}'.strip()}: {' '.join(complaint.split())}", err=True)
