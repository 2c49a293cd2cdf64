"""``outrider plan``: does it fit, what to expect, what it costs; and a manifest to start with."""

from __future__ import annotations

from typing import Annotated

import typer

from outrider.cli.common.options import with_shared_options
from outrider.cli.common.output import CommandError, ExitCode, Form, printed, say
from outrider.cli.plan.options import Options
from outrider.cli.plan.question import asked
from outrider.cli.plan.text import json_of, text_of_forecast, verdict_of
from outrider.sizing.forecast import Forecast, forecast
from outrider.sizing.manifest import text_of
from outrider.sizing.memory import Verdict


@with_shared_options
def plan(
    *,
    options: Options,
    manifest: Annotated[bool, typer.Option("--manifest", help="Print the manifest only.")] = False,
    form: Form | None,
) -> None:
    """Plan a launch: memory, speed, price and a manifest.

    It needs no cluster.

    Exit code 1: the model does not fit. 2: bad input, or the memory is not known.
    """
    try:
        wanted = asked(options)
        answer = forecast(wanted.question)
        made = wanted.manifest(answer)
    except ValueError as error:
        raise CommandError(str(error)) from error
    text = None if made is None else text_of(made, answer.proposal)
    verdict = answer.memory.verdict
    if manifest and made is None:
        say("plan", _no_manifest(answer))
        raise typer.Exit(ExitCode.NOT_WELL if verdict is Verdict.TOO_LARGE else ExitCode.CANNOT)
    if manifest and made is not None and form is Form.JSON:
        typer.echo(printed(made, form))
    elif manifest and text is not None:
        typer.echo(text, nl=False)
    elif form is not None:
        typer.echo(printed(json_of(wanted.question, answer, made, wanted.known_drafters), form))
    else:
        typer.echo(text_of_forecast(wanted.question, answer, text, wanted.known_drafters))
    if verdict is Verdict.TOO_LARGE:
        raise typer.Exit(ExitCode.NOT_WELL)
    if verdict is Verdict.NOT_KNOWN:
        raise CommandError(verdict_of(answer))


def _no_manifest(answer: Forecast) -> str:
    if answer.memory.verdict in (Verdict.TOO_LARGE, Verdict.NOT_KNOWN):
        return verdict_of(answer)
    if answer.no_speeds is not None:
        return f"there is no K to propose: {answer.no_speeds}; write the manifest, and have it judged"
    return "--manifest: the file is judged as it is; add --task to have one proposed"
