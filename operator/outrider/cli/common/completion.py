"""Names of models for the completion of a shell."""

from __future__ import annotations

import asyncio
import logging

import typer

_LONGEST_SECONDS = 3.0
"""Time that a completion may take; the shell waits for it."""


def model_names(context: typer.Context, incomplete: str) -> list[str]:
    """The names in the namespace that begin with ``incomplete``; none where the cluster cannot be asked."""
    # The Kubernetes client takes a second to import, and most commands do without it.
    from outrider.cli.common.cluster import CannotRead
    from outrider.cli.common.options import ClusterChoice
    from outrider.cli.status.reading import names_in

    # A log line would appear in the middle of what the user types.
    logging.disable()
    try:
        given = {name: context.params.get(name) for name in ("namespace", "context", "kubeconfig")}
        found = asyncio.run(asyncio.wait_for(names_in(ClusterChoice(**given)), _LONGEST_SECONDS))
    except (CannotRead, TimeoutError):
        return []
    finally:
        logging.disable(logging.NOTSET)
    return [name for name in found if name.startswith(incomplete)]
