"""The name of a model, which a shell completes with the names in the cluster."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import fields
from typing import Annotated

import typer

from outrider.cli.common.options import ClusterChoice
from outrider.cli.common.output import CommandError

_MAX_COMPLETION_SECONDS = 3.0
"""Time that a completion may take; the shell waits for it."""


def model_names(context: typer.Context, incomplete: str) -> list[str]:
    """The names in the namespace that begin with ``incomplete``; none where the cluster cannot be asked."""
    # The Kubernetes client takes a second to import, and most commands do without it.
    from outrider.cli.common.cluster import names_in

    # A log line would appear in the middle of what the user types.
    logging.disable()
    try:
        choice = ClusterChoice(**{each.name: context.params.get(each.name) for each in fields(ClusterChoice)})
        found = asyncio.run(asyncio.wait_for(names_in(choice), _MAX_COMPLETION_SECONDS))
    except (CommandError, TimeoutError):
        return []
    finally:
        logging.disable(logging.NOTSET)
    return [name for name in found if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="Name of the SpeculativeModel.", autocompletion=model_names)]
