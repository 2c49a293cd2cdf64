"""``outrider status``: one screen for a person on call."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from outrider.cli.common.options import ClusterChoice, model_names, with_shared_options
from outrider.cli.common.output import ExitCode, Form, cannot


@with_shared_options
def status(
    cluster: ClusterChoice,
    form: Form | None,
    name: Annotated[
        str | None,
        typer.Argument(help="Name of one SpeculativeModel. Default: all.", autocompletion=model_names),
    ] = None,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Show the models of all namespaces.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show every change until Ctrl-C.")] = False,
) -> None:
    """Show the state of models, and what needs a person.

    Exit code 1: something needs a person.
    """
    # The Kubernetes client takes a second to import, and most commands do without it.
    from outrider.cli.common.cluster import CannotRead
    from outrider.cli.status.reading import Question, follow_in_cluster, once, until_stopped
    from outrider.cli.status.screen import output_for

    try:
        if name is not None and everywhere:
            raise CannotRead("give a NAME or --all-namespaces, not both.")
        question = Question(name, cluster, everywhere)
        with output_for(question, follows=watch, form=form) as show:
            models = asyncio.run(follow_in_cluster(question, show, until_stopped if watch else once))
    except CannotRead as error:
        raise cannot("status", error) from error
    except KeyboardInterrupt:
        return
    if any(model.needs_a_person for model in models):
        raise typer.Exit(ExitCode.NOT_WELL)
