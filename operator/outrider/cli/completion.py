"""Names of models for the completion of a shell."""

from __future__ import annotations

import asyncio
import logging

import typer

_LONGEST_SECONDS = 3.0
"""Somebody waits with a finger on the key."""


def model_names(context: typer.Context, incomplete: str) -> list[str]:
    """Those of the namespace that begin so; none where the cluster cannot be asked."""
    # The Kubernetes client takes a second to import, and most commands do without it.
    from outrider.cli.cluster_access import CannotRead
    from outrider.cli.status_looks import names_in

    # A line in the middle of what is typed helps nobody.
    logging.disable()
    try:
        names = asyncio.wait_for(names_in(context.params.get("namespace")), _LONGEST_SECONDS)
        found = asyncio.run(names)
    except (CannotRead, TimeoutError):
        return []
    finally:
        logging.disable(logging.NOTSET)
    return [name for name in found if name.startswith(incomplete)]
