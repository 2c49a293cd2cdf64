"""Asks the engine cores for their sums at each scrape, one question at a time."""

from __future__ import annotations

import asyncio
import logging

from outrider_engine.control.state import Measurement
from outrider_engine.control.verbs import MEASUREMENT, Engines
from outrider_engine.http.exposition import render
from outrider_protocol.control_api import Reason, Refusal

logger = logging.getLogger("vllm.outrider")

ASK_SECONDS = 2.0
"""The engine core answers between two steps, so a long prefill delays the answer."""


class Scrape:
    """Concurrent scrapes share one question, so that they cannot slow the engine down."""

    def __init__(self, engines: Engines, *, seconds: float = ASK_SECONDS) -> None:
        self._engines = engines
        self._seconds = seconds
        self._question: asyncio.Task[list[Measurement]] | None = None
        self._silent = False

    async def measurements(self) -> list[Measurement]:
        """What each engine core has counted.

        Raises:
            Refusal: the engine core did not answer, or not in time.
        """
        try:
            if self._question is None or self._question.done():
                self._question = asyncio.create_task(self._engines.call_all(MEASUREMENT))
            # All scrapes wait for this answer, so the timeout of one must not cancel the question.
            return await asyncio.wait_for(asyncio.shield(self._question), self._seconds)
        except Exception as error:
            why = f"the engine core does not report its sums: {type(error).__name__}"
            raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, why) from error

    async def text(self) -> bytes:
        """The metrics; nothing at all when the engine core does not answer. Never raises."""
        try:
            text = render(await self.measurements(), model_name=self._engines.model_name())
        except Exception as error:  # noqa: BLE001  vLLM's own metrics must not suffer
            if not self._silent:
                logger.warning("outrider: the metrics are incomplete: %s", error)
            self._silent = True
            # Old sums would look like a standstill, so the sums are missing.
            return b""
        self._silent = False
        return text
