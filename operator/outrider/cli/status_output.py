"""Where looks at models go: a terminal, a pipe, or a program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from outrider.cli.consoles import console_of_now
from outrider.cli.status_looks import Models, Question, Show
from outrider.cli.status_screen import json_of, screen_of_all, screen_of_one

_NONE = "No SpeculativeModel here. -A looks in all namespaces; `outrider plan` makes a first one."


@contextmanager
def output_for(question: Question, *, follows: bool, as_json: bool) -> Iterator[Show]:
    """Shows one look, or one after the other: a terminal is redrawn, a pipe gets what changed."""
    console = console_of_now()
    if as_json:
        yield _Lines(indent=None if follows else 2)
    elif follows and console.is_terminal:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            yield lambda models, silence: live.update(_screen(question, models, silence), refresh=True)
    else:
        yield _Changes(question, console)


class _Lines:
    """One JSON text per change."""

    def __init__(self, *, indent: int | None) -> None:
        self._indent = indent
        self._before: object = None

    def __call__(self, models: Models, silence: str | None) -> None:
        if (models, silence) != self._before:
            told = {"models": [json_of(model) for model in models], "noAnswer": silence}
            typer.echo(json.dumps(told, indent=self._indent, allow_nan=False))
        self._before = (models, silence)


class _Changes:
    """One screen per change."""

    def __init__(self, question: Question, console: Console) -> None:
        self._question = question
        self._console = console
        self._before: object = None

    def __call__(self, models: Models, silence: str | None) -> None:
        if (models, silence) != self._before:
            if self._before is not None:
                self._console.print()
            self._console.print(_screen(self._question, models, silence))
        self._before = (models, silence)


def _screen(question: Question, models: Models, silence: str | None) -> RenderableType:
    now = datetime.now(UTC)
    if question.name is not None:
        screen = screen_of_one(models[0], now)
    elif models:
        screen = screen_of_all(models, now)
    else:
        screen = Text(_NONE)
    if silence is None:
        return screen
    return Group(Text(f"{now:%H:%M:%S} UTC, not seen since: {silence}", "bold red"), screen)
