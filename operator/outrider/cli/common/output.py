"""What commands print: errors with their exit code, results for programs, and words for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

import typer
import yaml
from pydantic import JsonValue

from outrider.api.schedule import Schedule
from outrider.api.status import SpeculationStatus

if TYPE_CHECKING:
    from rich.console import Console


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


class Form(StrEnum):
    """A form of output for programs."""

    JSON = "json"
    YAML = "yaml"


def printed(found: Mapping[str, object], form: Form, *, indent: int | None = 2) -> str:
    """A result for programs, without the last line break. indent: of JSON; None: all on one line.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(found, indent=indent, allow_nan=False)
    if form is Form.JSON:
        return text
    plain: JsonValue = json.loads(text)
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).rstrip("\n")


_WIDTH_OF_FILES = 400
"""Characters in a line of a pipe. It has no width, and its reader can wrap lines and not join them."""


def current_console() -> Console:
    """A console on standard output, as wide as the terminal; without a terminal it has no colours."""
    # Only screens need rich, which takes time to import.
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH_OF_FILES)
    return console


def age(moment: datetime, now: datetime) -> str:
    """The time since ``moment`` in one word, such as 42s, 4m, 3h or 2d; both times have a zone."""
    seconds = max(0, round((now - moment).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as ``1 pod`` and ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def in_ranges(schedule: str) -> str:
    """A schedule by ranges of the batch size, such as ``1-8:3 9+:0``; a text that is none stays as it is."""
    try:
        return Schedule.parse(schedule).in_ranges()
    except ValueError:
        return schedule


def schedule_of(speculation: SpeculationStatus) -> str:
    """The schedule that engines confirmed, and on how many pods."""
    pods = counted(speculation.applied_replicas or 0, "pod")
    if not speculation.schedule_summary:
        return f"none confirmed, on {pods}"
    return f"{in_ranges(speculation.schedule_summary)}, on {pods} (batch size: K)"
