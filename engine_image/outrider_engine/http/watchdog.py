"""The watchdog: whether the engine core still answers, as an API server sees it.

vLLM's ``/health`` fails for a core that ended, but not for one that hangs. A core answers calls between two
steps, so an open question has waited as long as its step has lasted.

Source: vLLM 0.32.0. `v1/executor/multiproc_executor.py` ends an engine whose workers take longer than
``VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS`` for a step. With one GPU the model is in the core,
and vLLM does not watch it (`v1/executor/uniproc_executor.py`).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping

from outrider_engine.control.verbs import LONGEST_STEP_SECONDS, Engines
from outrider_engine.http.server import App, Receive, Scope, Send, send_unavailable

logger = logging.getLogger("vllm.outrider")

HANG_VARIABLE = "OUTRIDER_HANG_SECONDS"
STEP_VARIABLE = "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"
DEFAULT_SECONDS = 300.0
"""vLLM's own limit for the workers of a step."""
MAX_STEPS = 10
"""If a step once took a minute, the limit is ten minutes."""
ASK_SECONDS = 5.0
LOOK_SECONDS = 1.0


def hang_seconds(variables: Mapping[str, str]) -> float:
    """Maximum seconds of silence, from the environment; infinite where the watchdog is disabled."""
    for name in (HANG_VARIABLE, STEP_VARIABLE):
        try:
            seconds = float(variables[name])
        except (KeyError, ValueError):
            continue
        return seconds if seconds > 0 else math.inf
    return DEFAULT_SECONDS


class Watchdog:
    """Asks the engine cores periodically, one question at a time.

    hang_seconds: minimum seconds of silence that count as a hang.
    look_seconds: interval at which an open question is checked.
    """

    def __init__(self, engines: Engines, hang_seconds: float, *, look_seconds: float = LOOK_SECONDS) -> None:
        self._engines = engines
        self._hang_seconds = hang_seconds
        self._look_seconds = look_seconds
        self._longest_step = 0.0
        self._reported = False
        self.silent_seconds = 0.0
        """For how long the current question has been open. Counted in checks: a clock would count a pause of
        the whole machine, too."""

    @property
    def limit(self) -> float:
        """Maximum silence in seconds before the core counts as hung."""
        return max(self._hang_seconds, MAX_STEPS * self._longest_step)

    @property
    def hang(self) -> str | None:
        """The hang in one line; None while the core answers."""
        if self.silent_seconds <= self.limit:
            return None
        return (
            f"the engine core hangs: no answer for {self.silent_seconds:.0f} s;"
            f" its longest step took {self._longest_step:.1f} s"
        )

    async def watch(self) -> None:
        """Ask as long as the server runs."""
        while True:
            await self.ask()
            await asyncio.sleep(ASK_SECONDS)

    async def ask(self) -> None:
        """Ask once, and wait for the answer. Other code reports a core that ends."""
        answer = asyncio.ensure_future(self._engines.call_all(LONGEST_STEP_SECONDS))
        try:
            while not (await asyncio.wait({answer}, timeout=self._look_seconds))[0]:
                self.silent_seconds += self._look_seconds
                self._report()
        finally:
            answer.cancel()
        self.silent_seconds, self._reported = 0.0, False
        if answer.exception() is None:
            self._longest_step = max(answer.result())

    def _report(self) -> None:
        if self.hang is not None and not self._reported:
            self._reported = True
            logger.error("outrider: %s; /health fails, so that Kubernetes restarts the container", self.hang)


class HangMiddleware:
    """Answers ``/health`` with 503 while the core hangs; any other request passes.

    hang: the hang in one line; None without one.
    """

    def __init__(self, app: App, *, hang: Callable[[], str | None]) -> None:
        self._app = app
        self._hang = hang

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        asked = scope["type"] == "http" and scope["path"] == "/health"
        hang = self._hang() if asked else None
        if hang is None:
            await self._app(scope, receive, send)
            return
        await send_unavailable(send, f"{hang}\n".encode(), (b"content-type", b"text/plain"))
