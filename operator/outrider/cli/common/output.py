"""What commands print and ask: errors with their exit code, results for programs, words for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum, StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING

import typer
import yaml
from pydantic import JsonValue

from outrider.api.status import DecisionRecord, SpeculationStatus, Speedup
from outrider_protocol.schedule import Schedule

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


class CommandError(Exception):
    """A command cannot do its work. Each line says why and what to do; `OneLineGroup` prints them.

    Every function of the command line may raise it. The cause is bad input, a file that cannot be read, a
    cluster that does not answer, or a signal.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def say(command: str, complaint: str) -> None:
    """Print one line on standard error. command: empty for ``outrider`` without a command."""
    typer.echo(f"{f'outrider {command}'.strip()}: {' '.join(complaint.split())}", err=True)


def require_consent(effect: str, *, given: bool) -> None:
    """Return once the user has agreed.

    effect: what the command does to the model, as a sentence without its full stop. given: by --yes.

    Raises:
        CommandError: there is no terminal to ask at.
        Exit: the user declines.
    """
    if given:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError(f"{effect}. Agree to that with --yes.")
    if not typer.confirm(f"{effect}. Continue?", err=True):
        raise typer.Exit(ExitCode.CANNOT)


def require_charts(option: str) -> None:
    """Refuse an option that draws, before the work, where the library for charts is missing."""
    if find_spec("matplotlib") is None:
        raise CommandError(
            f"{option} draws with matplotlib, which is not installed. {how_to_install('report')}"
        )


def how_to_install(extra: str) -> str:
    """The command that installs an extra of the package; uv would remove an extra that it leaves out."""
    return (
        f"Run `pip install 'outrider[{extra}]'`, or `uv tool install './operator[simulate,report]'` in a "
        "checkout"
    )


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


def interval_of(speedup: Speedup) -> str:
    """The interval of a speedup, after its ratio; empty where there is none."""
    return "" if speedup.low is None else f", 95 % {speedup.low:.2f} to {speedup.high or 0:.2f}"


def acceptance_of(speculation: SpeculationStatus) -> str:
    """The acceptance rate, and the one of each position."""
    positions = " ".join(f"{rate:.2f}" for rate in speculation.per_position_acceptance or ())
    return f"{speculation.acceptance_rate:.2f}, by position {positions or 'unknown'}"


def change_of(record: DecisionRecord) -> str:
    """The change of the schedule by a decision."""
    would = "would change " if record.would else ""
    return f"{would}{in_ranges(record.from_)} -> {in_ranges(record.to)}"


def reason_of(record: DecisionRecord) -> str:
    """The reason of a decision, and its message if there is one."""
    return f"{record.reason}: {record.message}" if record.message else record.reason
