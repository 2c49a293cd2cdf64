"""``outrider explain``: why a model has its schedule, or which one it had at a past time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.cli.common.options import ClusterChoice, Name, with_shared_options
from outrider.cli.common.output import Form, cannot, printed
from outrider.cli.explain.history import NotATime, json_of, lines_of, moment, past

if TYPE_CHECKING:
    from outrider.api.resource import SpeculativeModel


@with_shared_options
def explain(
    name: Name,
    cluster: ClusterChoice,
    form: Form | None,
    at: Annotated[
        str | None,
        typer.Option(
            help="Show the schedule at a past time, such as 2026-01-01T12:00:00Z, or 10m for ten minutes ago."
        ),
    ] = None,
) -> None:
    """Show why a model has its schedule.

    It shows conditions, the last decisions, and the estimates by batch size.
    """
    # The Kubernetes client takes a second to import, and most commands do without it.
    from outrider.cli.common.cluster import CannotRead, read_from_cluster
    from outrider.cli.common.output import current_console
    from outrider.cli.explain import explanation

    now = datetime.now(UTC)
    try:
        then = None if at is None else moment(at, now=now)
        model, estimates = asyncio.run(read_from_cluster(cluster, name))
    except (CannotRead, NotATime) as error:
        raise cannot("explain", error) from error
    if then is not None:
        _print_past(model, then, form)
    elif form is not None:
        typer.echo(printed(explanation.json_of(model, estimates), form))
    else:
        current_console().print(explanation.explanation(model, estimates, now=now))


def _print_past(model: SpeculativeModel, then: datetime, form: Form | None) -> None:
    found = past(model.status.decisions, then)
    if form is not None:
        typer.echo(printed(json_of(found), form))
        return
    for line in lines_of(found, f"{model.metadata.namespace}/{model.metadata.name}"):
        typer.echo(line)
