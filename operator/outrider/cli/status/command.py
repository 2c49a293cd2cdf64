"""``outrider status``: one screen for a person on call."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from outrider.cli.common.completion import model_names
from outrider.cli.common.options import ClusterChoice, with_shared_options
from outrider.cli.common.output import CommandError, ExitCode, Form


@with_shared_options
def status(
    *,
    name: Annotated[
        str | None,
        typer.Argument(help="Name of one SpeculativeModel. Default: all.", autocompletion=model_names),
    ] = None,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Show the models of all namespaces.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show every change until Ctrl-C.")] = False,
    cluster: ClusterChoice,
    form: Form | None,
) -> None:
    """Show the state of models, and what needs a person.

    Exit code 1: something needs a person.
    """
    # The Kubernetes client takes a second to import, and most commands do without it.
    from outrider.cli.status.reading import Question, follow_in_cluster, once, until_stopped
    from outrider.cli.status.screen import output_for

    if name is not None and everywhere:
        raise CommandError("give a NAME or --all-namespaces, not both.")
    question = Question(name, cluster, everywhere)
    try:
        with output_for(question, follows=watch, form=form) as show:
            models = asyncio.run(follow_in_cluster(question, show, until_stopped if watch else once))
    except KeyboardInterrupt:
        return
    if any(model.needs_a_person for model in models):
        raise typer.Exit(ExitCode.NOT_WELL)
