"""Engines that are not ready get their table as well, so that they have it before they take traffic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from outrider.controller.actuation import EnginePod
from outrider.engine.client import EngineClient, Push
from outrider.engine.errors import EngineError

_PERIOD_SECONDS = 1.0
"""From the moment at which a server listens to its first request it takes a readiness probe, or more."""

Coming = Callable[[], Sequence[tuple[EnginePod, Push]]]
"""Pods that run and are not ready, each with the push that it should have."""


async def greet_forever(engines: EngineClient, coming: Coming) -> None:
    """Push until cancelled, to whoever comes."""
    while True:
        await asyncio.gather(*(_greet(engines, pod, push) for pod, push in coming()))
        await asyncio.sleep(_PERIOD_SECONDS)


async def _greet(engines: EngineClient, pod: EnginePod, push: Push) -> None:
    # Most of them do not listen yet. Whatever else is wrong shows in the first tick after the pod is ready.
    with suppress(EngineError):
        await engines.push(pod.address, push)
