"""Liveness of an event loop, for readers on other threads."""

from __future__ import annotations

import asyncio
import time

MAX_SILENCE_SECONDS = 60.0
"""Maximum time without a beat in seconds; beyond it /healthz fails and the kubelet restarts the pod."""


class Heartbeat:
    """The time of a loop's last beat, readable from any thread."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    async def beat_forever(self, *, interval_seconds: float = 1.0) -> None:
        """Beat until cancelled; run it on the observed loop."""
        while True:
            self._at = time.monotonic()
            await asyncio.sleep(interval_seconds)

    @property
    def silence(self) -> float:
        """Seconds since the last beat."""
        return time.monotonic() - self._at
