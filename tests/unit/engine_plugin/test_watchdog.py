"""/health reports a core that hangs, but not a slow one or a machine that stood still."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from outrider_engine.http.server import Message, Receive, Scope, Send
from outrider_engine.http.watchdog import DEFAULT_SECONDS, MAX_STEPS, HangMiddleware, Watchdog, hang_seconds
from tests.unit.engine_plugin.factories import EnginesByVerb

LOOK = 0.001
"""Seconds, which count as `PATIENCE` does."""
PATIENCE = 3 * LOOK


class FakeEngines(EnginesByVerb):
    """Engine cores whose step lasts until it is said to end."""

    def __init__(self, *, longest: float = 0.0) -> None:
        self.longest = longest
        self.fault: Exception | None = None
        self.step_ends = asyncio.Event()

    async def longest_step_seconds(self, _: None) -> float:
        await self.step_ends.wait()
        if self.fault:
            raise self.fault
        return self.longest


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(LOOK)


@asynccontextmanager
async def asking(watchdog: Watchdog) -> AsyncIterator[None]:
    """A question is open during the block, and answered when it ends."""
    question = asyncio.create_task(watchdog.ask())
    try:
        yield
    finally:
        question.cancel()
        await asyncio.gather(question, return_exceptions=True)


async def test_a_step_without_end_is_a_hang() -> None:
    watchdog = Watchdog(FakeEngines(), PATIENCE, look_seconds=LOOK)
    async with asking(watchdog):
        assert watchdog.hang is None
        await until(lambda: watchdog.hang is not None)
    assert watchdog.silent_seconds > PATIENCE
    assert "the engine core hangs" in str(watchdog.hang)


async def test_a_core_that_answers_after_all_is_healthy_again() -> None:
    engines = FakeEngines()
    watchdog = Watchdog(engines, PATIENCE, look_seconds=LOOK)
    question = asyncio.create_task(watchdog.ask())
    await until(lambda: watchdog.hang is not None)
    engines.step_ends.set()
    await question
    assert (watchdog.hang, watchdog.silent_seconds) == (None, 0.0)


async def test_a_core_is_given_ten_times_the_longest_step_that_it_took() -> None:
    engines = FakeEngines(longest=44.0)
    engines.step_ends.set()
    watchdog = Watchdog(engines, DEFAULT_SECONDS)
    await watchdog.ask()
    assert watchdog.limit == 44.0 * MAX_STEPS
    watchdog.silent_seconds = 44.0 * MAX_STEPS
    assert watchdog.hang is None
    watchdog.silent_seconds += 1
    assert "its longest step took 44.0 s" in str(watchdog.hang)


async def test_a_core_without_long_steps_is_given_as_long_as_vllm_gives_its_workers() -> None:
    engines = FakeEngines(longest=0.5)
    engines.step_ends.set()
    watchdog = Watchdog(engines, DEFAULT_SECONDS)
    await watchdog.ask()
    assert watchdog.limit == DEFAULT_SECONDS == 300


async def test_time_in_which_this_process_stood_still_is_no_silence_of_the_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when the whole container is frozen, or the machine sleeps."""
    watchdog, loop = Watchdog(FakeEngines(), 100.0, look_seconds=60.0), asyncio.get_running_loop()
    async with asking(watchdog):
        await asyncio.sleep(0)
        awake = loop.time
        monkeypatch.setattr(loop, "time", lambda: awake() + 1000.0)
        await until(lambda: watchdog.silent_seconds > 0)
        assert (watchdog.silent_seconds, watchdog.hang) == (60.0, None)


async def test_a_refusal_is_an_answer() -> None:
    """Such as of a core without the plugin. vLLM itself reports one that died."""
    engines = FakeEngines()
    engines.fault = RuntimeError("no attribute")
    engines.step_ends.set()
    watchdog = Watchdog(engines, PATIENCE, look_seconds=LOOK)
    await watchdog.ask()
    assert watchdog.hang is None


async def test_a_hang_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(FakeEngines(), PATIENCE, look_seconds=LOOK)
    with caplog.at_level(logging.ERROR, "vllm.outrider"):
        async with asking(watchdog):
            await until(lambda: watchdog.silent_seconds > 3 * PATIENCE)
    assert caplog.text.count("/health fails, so that") == 1


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({}, DEFAULT_SECONDS),
        ({"OUTRIDER_HANG_SECONDS": "900"}, 900.0),
        ({"OUTRIDER_HANG_SECONDS": "0"}, math.inf),
        ({"OUTRIDER_HANG_SECONDS": "soon"}, DEFAULT_SECONDS),
        ({"VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "1200"}, 1200.0),
        ({"OUTRIDER_HANG_SECONDS": "60", "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "1200"}, 60.0),
    ],
    ids=str,
)
def test_the_environment_says_how_long_a_step_may_be(variables: dict[str, str], seconds: float) -> None:
    assert hang_seconds(variables) == seconds


async def health(
    app: Callable[[Scope, Receive, Send], Awaitable[None]], path: str = "/health"
) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    await app({"type": "http", "method": "GET", "path": path, "query_string": b""}, receive, send)
    return sent


async def vllm(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
    """Says that all is well."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def test_health_fails_while_the_core_hangs_and_says_why() -> None:
    start, body = await health(HangMiddleware(vllm, hang=lambda: "it hangs"))
    assert (start["status"], body["body"]) == (503, b"it hangs\n")


@pytest.mark.parametrize(
    ("path", "hang"), [("/health", None), ("/metrics", "it hangs"), ("/v1/models", "it hangs")]
)
async def test_every_other_answer_is_vllm_s(path: str, hang: str | None) -> None:
    start, _ = await health(HangMiddleware(vllm, hang=lambda: hang), path)
    assert start["status"] == 200
