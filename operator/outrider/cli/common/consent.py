"""Asks before a command puts load on a model that serves."""

from __future__ import annotations

import sys

import typer

from outrider.cli.common.output import ExitCode, cannot


def require_consent(command: str, effect: str, *, given: bool) -> None:
    """Return once the user has agreed.

    effect: what the command does to the model, as a sentence without its full stop. given: by --yes.

    Raises:
        Exit: the user declines, or there is no terminal to ask at.
    """
    if given:
        return
    if not sys.stdin.isatty():
        raise cannot(command, f"{effect}. Agree to that with --yes.")
    if not typer.confirm(f"{effect}. Continue?", err=True):
        raise typer.Exit(ExitCode.CANNOT)
