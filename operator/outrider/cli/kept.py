"""What a command measured so far, so that nothing of it is lost when the command cannot go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import typer
from pydantic import JsonValue

from outrider.cli.cluster_access import CannotRead
from outrider.cli.exit_codes import ExitCode, cannot, say
from outrider.cli.stopping import Stopped, run_until_stopped

FoundT = TypeVar("FoundT")


@dataclass
class Kept(Generic[FoundT]):
    """The latest result of a command, which says something by itself; also in a file, where one is named."""

    command: str
    as_json: Callable[[FoundT], Mapping[str, JsonValue]]
    output: Path | None = None
    latest: FoundT | None = None
    ended: str | None = None  # why the command did not come to its end
    unwritten: bool = False  # whether a file that was asked for is not there

    def keep(self, found: FoundT) -> None:
        """In place of the one before."""
        self.latest = found
        if self.output is not None:
            self.write(self.output, json.dumps(self.as_json(found), indent=2, allow_nan=False))

    def write(self, file: Path, text: str) -> None:
        """A file that cannot be written is told of, and the result can still be printed."""
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            self.unwritten = True
            say(self.command, f"{file} was not written: {error.strerror or error}.")

    def by(self, work: Coroutine[object, object, None]) -> FoundT:
        """What this work kept last, at its end or when it could not go on.

        Raises:
            Exit: it kept nothing; the reason was told.
        """
        try:
            run_until_stopped(work)
        except (CannotRead, Stopped) as error:
            self.ended = str(error)
        if self.latest is None:
            raise cannot(self.command, self.ended or "nothing was measured")
        return self.latest

    def see_to_the_end(self) -> None:
        """Once the result was told.

        Raises:
            Exit: the work did not come to its end, or a file was not written; the reason was told.
        """
        if self.ended is not None:
            raise cannot(self.command, self.ended)
        if self.unwritten:
            raise typer.Exit(ExitCode.CANNOT)
