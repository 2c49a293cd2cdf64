"""Reads the status of models, once or repeatedly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from outrider.cli.common.cluster import (
    access,
    cannot_read,
    models_everywhere,
    models_in,
    no_such_model,
    stored_model,
)
from outrider.cli.common.options import ClusterChoice
from outrider.cli.common.output import CommandError
from outrider.cli.status.findings import OnCall, on_call
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError

LOOK_SECONDS = 2.0

Models = tuple[OnCall, ...]
Look = Callable[[], Awaitable[Models]]
Show = Callable[[Models, str | None], None]
"""Shows models as they were read last, and why a later read failed; None: it did not."""


@dataclass(frozen=True, slots=True)
class Question:
    """The models that the user asks about."""

    name: str | None  # None: all models
    cluster: ClusterChoice
    everywhere: bool


async def until_stopped() -> bool:
    """Wait, then ask for another look."""
    await asyncio.sleep(LOOK_SECONDS)
    return True


async def once() -> bool:
    """Ask for no other look."""
    return False


async def follow_in_cluster(question: Question, show: Show, again: Callable[[], Awaitable[bool]]) -> Models:
    """Follow the models of the chosen cluster; see `follow`."""
    async with access(question.cluster) as there:
        return await follow(lambda: look(there.cluster, there.namespace, question), show, again)


async def look(cluster: ClusterClient, namespace: str, question: Question) -> Models:
    """The models of a question, sorted by namespace and name."""
    now = datetime.now(UTC)
    try:
        if question.name is None:
            listed = models_everywhere(cluster) if question.everywhere else models_in(cluster, namespace)
            models = (on_call(raw, now) for raw in await listed)
            return tuple(sorted(models, key=lambda model: (model.namespace, model.name)))
        raw = await stored_model(cluster, namespace, question.name)
    except ClusterError as error:
        raise cannot_read(error) from error
    if raw is None:
        raise no_such_model(namespace, question.name)
    return (on_call(raw, now),)


async def follow(look: Look, show: Show, again: Callable[[], Awaitable[bool]]) -> Models:
    """Show every look, and return the models of the last one."""
    seen = await look()
    show(seen, None)
    while await again():
        try:
            seen = await look()
        except CommandError as error:
            show(seen, str(error))
        else:
            show(seen, None)
    return seen
