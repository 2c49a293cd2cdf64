"""The output of ``outrider status``: rows of models, or one model, for a terminal, a pipe or a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import typer
from pydantic import JsonValue
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from outrider.api.status import SpeculationStatus
from outrider.cli.common.output import (
    Form,
    acceptance_of,
    age,
    change_of,
    current_console,
    in_ranges,
    interval_of,
    printed,
    reason_of,
    schedule_of,
)
from outrider.cli.status.findings import Finding, OnCall, Urgency
from outrider.cli.status.reading import Models, Question, Show

_HEADS = {
    Urgency.PERSON: ("Needs a person", "bold red"),
    Urgency.PASSES: ("Outrider works on it", "yellow"),
    Urgency.NOTE: ("Worth knowing", "cyan"),
}
_COLUMNS = ("model", "reason", "pods", "schedule", "speedup", "accept")
_WRAPPED = ("model", "reason", "schedule")
_MAX_UNFOLDED = 24
"""Characters of a name that are never folded."""


def screen_of_all(models: Sequence[OnCall], now: datetime) -> RenderableType:
    """A row for each model, and below it what needs a person, with what to do."""
    table = Table(*_COLUMNS, box=None, pad_edge=False)
    for column in table.columns:
        column.no_wrap = column.header not in _WRAPPED
    longest = max((len(f"{model.namespace}/{model.name}") for model in models), default=0)
    table.columns[0].min_width = min(longest, _MAX_UNFOLDED)
    for model in models:
        name = Text(f"{model.namespace}/{model.name}", overflow="fold")
        state = Text(_state(model), "red" if model.needs_a_person else "")
        table.add_row(name, state, *map(Text, _cells(model)))
    wrong = [model for model in models if model.needs_a_person]
    return Group(table, *_below(wrong, now))


def _below(wrong: Sequence[OnCall], now: datetime) -> Iterator[RenderableType]:
    yield Text("")
    if not wrong:
        yield Text("Nothing needs a person.", style="green")
        return
    for model in wrong:
        yield Text(f"{model.namespace}/{model.name} needs a person", style="bold red")
        for finding in model.findings:
            if finding.urgency is Urgency.PERSON:
                yield from _lines(finding, now)


def screen_of_one(model: OnCall, now: datetime) -> RenderableType:
    """The state of one model, the findings with what to do, and the last decision."""
    return Group(*_parts(model, now))


def _parts(model: OnCall, now: datetime) -> Iterator[RenderableType]:
    style = "bold red" if model.needs_a_person else "bold green"
    yield Text(f"{model.namespace}/{model.name}: {_state(model)}, {model.status.serving or '?'} pods", style)
    yield from (Text(line) for line in _speculation(model.status.speculation, now))
    for urgency, (head, colour) in _HEADS.items():
        found = [finding for finding in model.findings if finding.urgency is urgency]
        if found:
            yield Text(f"\n{head}", colour)
            yield from (line for finding in found for line in _lines(finding, now))
    yield Text("")
    if model.status.decisions:
        last = model.status.decisions[0]
        yield Text(f"Last decision, {age(last.time, now)} ago: {change_of(last)}")
        yield Text(f"  {reason_of(last)}")
    if not model.needs_a_person:
        yield Text("Nothing needs a person.")


def _state(model: OnCall) -> str:
    return model.status.reason or (model.findings[0].reason if model.findings else "Unknown")


def _cells(model: OnCall) -> tuple[str, str, str, str]:
    speculation = model.status.speculation
    serving = model.status.serving or "-"
    if speculation is None:
        return serving, "-", "-", "-"
    speedup, accepted = speculation.speedup, speculation.acceptance_rate
    return (
        serving,
        in_ranges(speculation.schedule_summary or "-"),
        "-" if speedup is None else f"{speedup.ratio:.2f}",
        "-" if accepted is None else f"{accepted:.2f}",
    )


def _speculation(speculation: SpeculationStatus | None, now: datetime) -> Iterator[str]:
    if speculation is None:
        return
    yield f"  schedule    {schedule_of(speculation)}"
    simulated = speculation.simulated
    note = "" if simulated is None else f", simulated ({simulated}): engines sleep"
    yield f"  speculation {speculation.state}{note}"
    speedup = speculation.speedup
    if speedup is not None:
        measured = age(speedup.measured_at, now)
        yield f"  speedup     {speedup.ratio:.2f} x K=0{interval_of(speedup)}, {measured} ago"
    if speculation.acceptance_rate is not None:
        yield f"  acceptance  {acceptance_of(speculation)}"


def _lines(finding: Finding, now: datetime) -> Iterator[Text]:
    since = "" if finding.since is None else f", {age(finding.since, now)}"
    yield Text(f"  {finding.subject} {finding.reason}{since}: {finding.message}")
    if finding.do:
        yield Text(f"    do: {finding.do}")


def json_of(model: OnCall) -> dict[str, JsonValue]:
    """The same for programs: the status as the API server keeps it, and the findings."""
    status: JsonValue = model.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "namespace": model.namespace,
        "name": model.name,
        "needsAPerson": model.needs_a_person,
        "findings": [
            {
                "urgency": each.urgency,
                "subject": each.subject,
                "reason": each.reason,
                "message": each.message,
                "do": each.do,
            }
            for each in model.findings
        ],
        "status": status,
    }


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
