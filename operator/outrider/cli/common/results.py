"""The measurements of a command: asked for, then kept so that none is lost if the command cannot finish."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Generic, TypeVar

import typer
from pydantic import JsonValue

from outrider.cli.common.cluster import CannotRead
from outrider.cli.common.output import ExitCode, cannot, say
from outrider.cli.common.processes import Stopped, run_until_stopped

FoundT = TypeVar("FoundT")


@dataclass
class Kept(Generic[FoundT]):
    """The latest result of a command, complete in itself; also in a file, where one is named."""

    command: str
    as_json: Callable[[FoundT], Mapping[str, JsonValue]]
    output: Path | None = None
    latest: FoundT | None = None
    ended: str | None = None  # why the command did not finish
    unwritten: bool = False  # a file that was asked for could not be written

    def keep(self, found: FoundT) -> None:
        """Replace the result before."""
        self.latest = found
        if self.output is not None:
            self.write(self.output, json.dumps(self.as_json(found), indent=2, allow_nan=False))

    def write(self, file: Path, text: str) -> None:
        """Write a file; where that fails, print why, and leave the result to be printed."""
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            self.unwritten = True
            say(self.command, f"{file} was not written: {error.strerror or error}.")

    def by(self, work: Coroutine[object, object, None]) -> FoundT:
        """Run the work and return what it kept last, whether or not it finished.

        Raises:
            Exit: it kept nothing; the reason is printed.
        """
        try:
            run_until_stopped(work)
        except (CannotRead, Stopped) as error:
            self.ended = str(error)
        if self.latest is None:
            raise cannot(self.command, self.ended or "nothing was measured")
        return self.latest

    def see_to_the_end(self) -> None:
        """End the command after its result is printed.

        Raises:
            Exit: the work did not finish, or a file was not written; the reason is printed.
        """
        if self.ended is not None:
            raise cannot(self.command, self.ended)
        if self.unwritten:
            raise typer.Exit(ExitCode.CANNOT)


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


def require_charts(command: str, option: str) -> None:
    """Refuse an option that draws, before the work, where the library for charts is missing.

    Raises:
        Exit: it is not installed.
    """
    if find_spec("matplotlib") is None:
        raise cannot(
            command,
            f"{option} draws with matplotlib, which is not installed. Run `pip install 'outrider[report]'`, "
            "or `uv tool install './operator[report]'` in a checkout",
        )
