"""Engines that are not ready get their table as well, so that they have it before they take traffic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from outrider.controller.tune.actuation import EnginePod
from outrider.engine.client import EngineClient, Push
from outrider.engine.errors import EngineError

log = logging.getLogger(__name__)

_PERIOD_SECONDS = 1.0
"""From the moment at which a server listens to its first request it takes a readiness probe, or more."""

Coming = Callable[[], Sequence[tuple[EnginePod, Push]]]
"""Pods that run and are not ready, each with the push that it should have."""


async def greet_forever(engines: EngineClient, coming: Coming) -> None:
    """Push until cancelled, to whoever comes. A pod that is slow to answer holds up no other."""
    under_way: dict[str, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as greetings:
        while True:
            under_way = {url: task for url, task in under_way.items() if not task.done()}
            for pod, push in coming():
                if pod.address.url not in under_way:
                    greeting = greetings.create_task(_greet(engines, pod, push))
                    under_way[pod.address.url] = greeting
            await asyncio.sleep(_PERIOD_SECONDS)


async def _greet(engines: EngineClient, pod: EnginePod, push: Push) -> None:
    try:
        # Most do not listen yet. Whatever else is wrong shows in the first tick after the pod is ready.
        with suppress(EngineError):
            await engines.push(pod.address, push)
    except Exception:  # supervision: one pod must not end the greeting of all
        log.exception("greeting of %s failed", pod.name)
