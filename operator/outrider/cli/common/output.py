"""The exit codes of every command of ``outrider``."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import typer


class ExitCode(IntEnum):
    """The exit codes; `docs/reference/exit-codes.md` has them by command."""

    FINE = 0
    """The command did its work, and all is well."""
    NOT_WELL = 1
    """The command did its work, and something is not well; the output says what."""
    CANNOT = 2
    """The command could not finish: bad input, no cluster, no right or no such model. One line says what to
    do. A command that measures prints what it has."""


def cannot(command: str, why: Exception | str) -> typer.Exit:
    """End a command that cannot do its work. why: one line that says what to do."""
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
