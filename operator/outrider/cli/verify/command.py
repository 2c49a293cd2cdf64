"""``outrider verify``: whether speculation changes the answers of a live model."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from outrider.cli.common.completion import Name
from outrider.cli.common.files import prompts_of
from outrider.cli.common.options import ClusterChoice, Prompts, Url, Yes, with_shared_options
from outrider.cli.common.output import ExitCode, Form, printed, require_consent
from outrider.verify.greedy import TIE
from outrider.verify.result import Verdict, json_of, text_of


@with_shared_options
def verify(
    *,
    name: Name,
    k: Annotated[
        int | None,
        typer.Option("--k", min=1, help="Compare this K with K=0. Default: the largest candidate."),
    ] = None,
    prompts: Prompts = None,
    tokens: Annotated[int, typer.Option(min=1, max=4096, help="Tokens of a greedy answer.")] = 64,
    samples: Annotated[
        int, typer.Option(min=0, max=100_000, help="Sampled answers with and without drafts; 0 for none.")
    ] = 400,
    structured: Annotated[
        bool, typer.Option(help="Also compare JSON by a schema, and tool calls where the engine parses them.")
    ] = True,
    tie: Annotated[
        float, typer.Option(min=0, max=10, help="Nats between two tokens below which rounding may swap them.")
    ] = TIE,
    url: Url = None,
    yes: Yes = False,
    cluster: ClusterChoice,
    form: Form | None,
) -> None:
    """Check that speculation is lossless on a live model.

    It compares greedy, structured and sampled answers with drafts and without, by requests to a live model.
    Meanwhile it overrides the schedule, and then removes the override.
    Exit code 1: answers change, or the result is undecided.
    """
    # The Kubernetes client takes a second to import, and most commands do without it.
    from outrider.cli.common.results import Results
    from outrider.cli.verify.driving import Question
    from outrider.cli.verify.driving import verify as drive

    question = Question(cluster, name, k, prompts_of(prompts), tokens, samples, structured, tie, url)
    effect = f"This sends requests to {name}, one at a time, and overrides its schedule meanwhile"
    require_consent(effect, given=yes)
    results = Results("verify", json_of)
    result = results.of(drive(question, lambda line: typer.echo(line, err=True), results.keep))
    if not result.sampled:
        result = replace(result, ended=results.ended)
    typer.echo("\n".join(text_of(result)) if form is None else printed(json_of(result), form))
    results.end()
    if result.verdict is not Verdict.LOSSLESS:
        raise typer.Exit(ExitCode.NOT_WELL)
