"""The output of ``outrider status``: to a terminal, a pipe, or a program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from outrider.cli.common.consoles import current_console
from outrider.cli.common.options import Form, printed
from outrider.cli.status.reading import Models, Question, Show
from outrider.cli.status.screen import json_of, screen_of_all, screen_of_one

_NONE = "No SpeculativeModel is here. -A reads all namespaces; `outrider plan` writes a first manifest."


@contextmanager
def output_for(question: Question, *, follows: bool, form: Form | None) -> Iterator[Show]:
    """A function that shows looks. A terminal is redrawn; a pipe gets a screen for each change."""
    console = current_console()
    if form is not None:
        yield _Texts(form, follows=follows)
    elif follows and console.is_terminal:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            yield lambda models, silence: live.update(_screen(question, models, silence), refresh=True)
    else:
        yield _Changes(question, console)


class _Texts:
    """One text per change: with ``follows`` JSON on one line, and YAML as documents."""

    def __init__(self, form: Form, *, follows: bool) -> None:
        self._form = form
        self._follows = follows
        self._before: object = None

    def __call__(self, models: Models, silence: str | None) -> None:
        if (models, silence) != self._before:
            found = {"models": [json_of(model) for model in models], "noAnswer": silence}
            if self._follows and self._form is Form.YAML:
                typer.echo("---")
            typer.echo(printed(found, self._form, indent=None if self._follows else 2))
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
    return Group(Text(f"{now:%H:%M:%S} UTC, no answer since: {silence}", "bold red"), screen)
