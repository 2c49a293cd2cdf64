"""Reads the status of models, once or again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from outrider.cli.cluster_access import CannotRead, access, told
from outrider.cli.model_reader import no_such_model, stored_model
from outrider.cli.on_call import OnCall, on_call
from outrider.cli.shared_options import ClusterChoice
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError
from outrider.cluster.resources import MODELS

LOOK_SECONDS = 2.0

Models = tuple[OnCall, ...]
Look = Callable[[], Awaitable[Models]]
Show = Callable[[Models, str | None], None]
"""Shows models as they were seen last, and why they could not be seen since; None: they could."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about."""

    name: str | None  # None: all models
    cluster: ClusterChoice
    everywhere: bool


async def until_stopped() -> bool:
    """Another look, after a while."""
    await asyncio.sleep(LOOK_SECONDS)
    return True


async def once() -> bool:
    """No other look."""
    return False


async def follow_in_cluster(question: Question, show: Show, again: Callable[[], Awaitable[bool]]) -> Models:
    """See `follow`.

    Raises:
        CannotRead: the first look failed.
    """
    async with access(question.cluster) as there:
        return await follow(lambda: look(there.cluster, there.namespace, question), show, again)


async def names_in(choice: ClusterChoice) -> tuple[str, ...]:
    """Names of the models of the chosen namespace.

    Raises:
        CannotRead: no right to list them, or no answer.
    """
    async with access(choice) as there:
        found = await look(there.cluster, there.namespace, Question(None, choice, everywhere=False))
    return tuple(model.name for model in found)


async def look(cluster: ClusterClient, namespace: str, question: Question) -> Models:
    """The models that are asked about, by name.

    Raises:
        CannotRead: no such model, no right to read it, or no answer.
    """
    now = datetime.now(UTC)
    try:
        if question.name is None:
            found, _ = await cluster.list_all(MODELS, None if question.everywhere else namespace)
            models = (on_call(raw, now) for raw in found)
            return tuple(sorted(models, key=lambda model: (model.namespace, model.name)))
        raw = await stored_model(cluster, namespace, question.name)
    except ClusterError as error:
        raise told(error) from error
    if raw is None:
        raise no_such_model(namespace, question.name)
    return (on_call(raw, now),)


async def follow(look: Look, show: Show, again: Callable[[], Awaitable[bool]]) -> Models:
    """Show every look as long as there is another one; what was seen last.

    Raises:
        CannotRead: the first look failed. A later one that fails is told, and the models stay.
    """
    seen = await look()
    show(seen, None)
    while await again():
        try:
            seen = await look()
        except CannotRead as error:
            show(seen, str(error))
        else:
            show(seen, None)
    return seen
