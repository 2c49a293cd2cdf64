"""``outrider explain``: why a model has its schedule, or which one it had at a past time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer

from outrider.cli.common.completion import Name
from outrider.cli.common.options import ClusterChoice, with_shared_options
from outrider.cli.common.output import Form, current_console, printed
from outrider.cli.explain import history


@with_shared_options
def explain(
    *,
    name: Name,
    at: Annotated[
        str | None,
        typer.Option(
            help="Show the schedule at a past time, such as 2026-01-01T12:00:00Z, or 10m for ten minutes ago."
        ),
    ] = None,
    cluster: ClusterChoice,
    form: Form | None,
) -> None:
    """Show why a model has its schedule.

    It shows conditions, the last decisions, and the estimates by batch size.
    """
    # The Kubernetes client takes a second to import, and most commands do without it.
    from outrider.cli.common.cluster import read_from_cluster
    from outrider.cli.explain import explanation

    now = datetime.now(UTC)
    then = None if at is None else history.moment(at, now=now)
    model, estimates = asyncio.run(read_from_cluster(cluster, name))
    if then is not None:
        found = history.past(model.status.decisions, then)
        title = f"{model.metadata.namespace}/{model.metadata.name}"
        lines = history.lines_of(found, title)
        typer.echo("\n".join(lines) if form is None else printed(history.json_of(found), form))
    elif form is not None:
        typer.echo(printed(explanation.json_of(model, estimates), form))
    else:
        current_console().print(explanation.explanation(model, estimates, now=now))
