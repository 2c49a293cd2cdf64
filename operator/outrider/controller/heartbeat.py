"""Whether an event loop still takes its turns, for readers on other threads."""

from __future__ import annotations

import asyncio
import time

LONGEST_SILENCE_SECONDS = 60.0
"""A loop that took no turn for longer is taken for dead: /healthz fails, and the kubelet restarts the pod."""
_BEAT_SECONDS = 1.0


class Heartbeat:
    """Beaten by one loop, read from any thread."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    async def beat_forever(self) -> None:
        """Run on the loop in question until cancelled."""
        while True:
            self._at = time.monotonic()
            await asyncio.sleep(_BEAT_SECONDS)

    @property
    def silence(self) -> float:
        """Seconds since the last beat."""
        return time.monotonic() - self._at
