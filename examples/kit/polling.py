"""Look again and again in the background."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def looking(
    look: Callable[[], Awaitable[None]], *, period_seconds: float, gaps: type[Exception]
) -> AsyncIterator[None]:
    """Look once a period while the block runs. gaps: a look that fails with it is left out."""

    async def follow() -> None:
        while True:
            with suppress(gaps):
                await look()
            await asyncio.sleep(period_seconds)

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
