"""How every command of ``outrider`` ends, for whoever calls it from a script."""

from __future__ import annotations

from enum import IntEnum

import typer


class ExitCode(IntEnum):
    """The exit codes; `docs/reference/exit-codes.md` has them by command."""

    FINE = 0
    """It was done, and what was asked about is well."""
    NOT_WELL = 1
    """It was done, and what was asked about is not well; the output says what."""
    CANNOT = 2
    """It was not done: bad input, no cluster, no right, no such model. One line says what to do."""


def cannot(command: str, error: Exception) -> typer.Exit:
    """Ends a command that cannot do what it was asked for. error: its message says what to do."""
    line = " ".join(str(error).split())
    typer.echo(f"outrider {command}: {line}", err=True)
    return typer.Exit(ExitCode.CANNOT)
