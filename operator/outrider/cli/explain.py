"""``outrider explain``: why a model's table is what it is, out of the cluster."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from outrider.cli.completion import model_names
from outrider.cli.exit_codes import cannot


def explain(
    name: Annotated[str, typer.Argument(help="Name of the SpeculativeModel.", autocompletion=model_names)],
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Its namespace. Default: that of the context.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Show why a model's table is what it is: conditions, last decisions, estimates per batch size."""
    # The Kubernetes client takes a second to import, and most commands do without it.
    from outrider.cli.cluster_access import CannotRead
    from outrider.cli.consoles import console_of_now
    from outrider.cli.explanation import explanation, json_of
    from outrider.cli.model_reader import read_from_cluster

    try:
        model, estimates = asyncio.run(read_from_cluster(namespace, name))
    except CannotRead as error:
        raise cannot("explain", error) from error
    if as_json:
        typer.echo(json.dumps(json_of(model, estimates), indent=2, allow_nan=False))
    else:
        console_of_now().print(explanation(model, estimates, now=datetime.now(UTC)))
