"""``outrider explain``: why a model's table is what it is, out of the cluster."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer

_WIDTH_OF_FILES = 400
"""Characters; a pipe has no width of its own, and whoever reads it can wrap lines, not join them."""


def explain(
    name: Annotated[str, typer.Argument(help="Name of the SpeculativeModel.")],
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Its namespace. Default: that of the context.")
    ] = None,
) -> None:
    """Show why a model's table is what it is: conditions, last decisions, estimates per batch size."""
    # The Kubernetes client takes a second to import, and most commands do without it.
    from rich.console import Console

    from outrider.cli.explanation import explanation
    from outrider.cli.model_reader import CannotRead, read_from_cluster

    try:
        model, estimates = asyncio.run(read_from_cluster(namespace, name))
    except CannotRead as error:
        typer.echo(f"outrider explain: {error}", err=True)
        raise typer.Exit(1) from error
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH_OF_FILES)
    console.print(explanation(model, estimates, now=datetime.now(UTC)))
