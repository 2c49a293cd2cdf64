"""The results of a command, kept so that none is lost where the command cannot finish."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import typer
from pydantic import JsonValue

from outrider.cli.common.output import CommandError, ExitCode, say
from outrider.cli.common.processes import run_until_stopped

FoundT = TypeVar("FoundT")


@dataclass
class Results(Generic[FoundT]):
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

    def of(self, work: Coroutine[object, object, None]) -> FoundT:
        """Run the work and return what it kept last, whether or not it finished.

        Raises:
            CommandError: it kept nothing.
        """
        try:
            run_until_stopped(work)
        except CommandError as error:
            self.ended = str(error)
        if self.latest is None:
            raise CommandError(self.ended or "nothing was measured")
        return self.latest

    def end(self) -> None:
        """End the command after its result is printed.

        Raises:
            CommandError: the work did not finish.
            Exit: a file was not written; the reason is printed.
        """
        if self.ended is not None:
            raise CommandError(self.ended)
        if self.unwritten:
            raise typer.Exit(ExitCode.CANNOT)
