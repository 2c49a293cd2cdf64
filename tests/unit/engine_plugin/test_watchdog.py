"""/health reports a core that hangs, but not a slow one or a machine that stood still."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from outrider_engine.http.asgi import Message, Receive, Scope, Send
from outrider_engine.http.watchdog import LONGEST_STEPS, USUAL_SECONDS, Pulse, PulseMiddleware, patience_of

LOOK = 0.001
"""Seconds, which count as `PATIENCE` does."""
PATIENCE = 3 * LOOK


class FakeEngines:
    """Engine cores whose step lasts until it is said to end."""

    def __init__(self, *, longest: float = 0.0) -> None:
        self.longest = longest
        self.fault: Exception | None = None
        self.step_ends = asyncio.Event()

    async def longest_step_seconds(self) -> float:
        await self.step_ends.wait()
        if self.fault:
            raise self.fault
        return self.longest


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(LOOK)


@asynccontextmanager
async def asking(pulse: Pulse) -> AsyncIterator[None]:
    """A question is open during the block, and answered when it ends."""
    beat = asyncio.create_task(pulse.beat())
    try:
        yield
    finally:
        beat.cancel()
        await asyncio.gather(beat, return_exceptions=True)


async def test_a_step_without_end_is_a_hang() -> None:
    pulse = Pulse(FakeEngines(), PATIENCE, look_seconds=LOOK)
    async with asking(pulse):
        assert pulse.hang is None
        await until(lambda: pulse.hang is not None)
    assert pulse.silent_seconds > PATIENCE
    assert "the engine core hangs" in str(pulse.hang)


async def test_a_core_that_answers_after_all_is_healthy_again() -> None:
    engines = FakeEngines()
    pulse = Pulse(engines, PATIENCE, look_seconds=LOOK)
    beat = asyncio.create_task(pulse.beat())
    await until(lambda: pulse.hang is not None)
    engines.step_ends.set()
    await beat
    assert (pulse.hang, pulse.silent_seconds) == (None, 0.0)


async def test_a_core_is_given_ten_times_the_longest_step_that_it_took() -> None:
    engines = FakeEngines(longest=44.0)
    engines.step_ends.set()
    pulse = Pulse(engines, USUAL_SECONDS)
    await pulse.beat()
    assert pulse.limit == 44.0 * LONGEST_STEPS
    pulse.silent_seconds = 44.0 * LONGEST_STEPS
    assert pulse.hang is None
    pulse.silent_seconds += 1
    assert "its longest step took 44.0 s" in str(pulse.hang)


async def test_a_core_without_long_steps_is_given_as_long_as_vllm_gives_its_workers() -> None:
    engines = FakeEngines(longest=0.5)
    engines.step_ends.set()
    pulse = Pulse(engines, USUAL_SECONDS)
    await pulse.beat()
    assert pulse.limit == USUAL_SECONDS == 300


async def test_time_in_which_this_process_stood_still_is_no_silence_of_the_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when the whole container is frozen, or the machine sleeps."""
    pulse, loop = Pulse(FakeEngines(), 100.0, look_seconds=60.0), asyncio.get_running_loop()
    async with asking(pulse):
        await asyncio.sleep(0)
        awake = loop.time
        monkeypatch.setattr(loop, "time", lambda: awake() + 1000.0)
        await until(lambda: pulse.silent_seconds > 0)
        assert (pulse.silent_seconds, pulse.hang) == (60.0, None)


async def test_a_refusal_is_an_answer() -> None:
    """Such as of a core without the plugin. vLLM itself reports one that died."""
    engines = FakeEngines()
    engines.fault = RuntimeError("no attribute")
    engines.step_ends.set()
    pulse = Pulse(engines, PATIENCE, look_seconds=LOOK)
    await pulse.beat()
    assert pulse.hang is None


async def test_a_hang_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    pulse = Pulse(FakeEngines(), PATIENCE, look_seconds=LOOK)
    with caplog.at_level(logging.ERROR, "vllm.outrider"):
        async with asking(pulse):
            await until(lambda: pulse.silent_seconds > 3 * PATIENCE)
    assert caplog.text.count("/health fails, so that") == 1


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({}, USUAL_SECONDS),
        ({"OUTRIDER_HANG_SECONDS": "900"}, 900.0),
        ({"OUTRIDER_HANG_SECONDS": "0"}, math.inf),
        ({"OUTRIDER_HANG_SECONDS": "soon"}, USUAL_SECONDS),
        ({"VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "1200"}, 1200.0),
        ({"OUTRIDER_HANG_SECONDS": "60", "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "1200"}, 60.0),
    ],
    ids=str,
)
def test_the_environment_says_how_long_a_step_may_be(variables: dict[str, str], seconds: float) -> None:
    assert patience_of(variables) == seconds


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
    start, body = await health(PulseMiddleware(vllm, hang=lambda: "it hangs"))
    assert (start["status"], body["body"]) == (503, b"it hangs\n")


@pytest.mark.parametrize(
    ("path", "hang"), [("/health", None), ("/metrics", "it hangs"), ("/v1/models", "it hangs")]
)
async def test_every_other_answer_is_vllm_s(path: str, hang: str | None) -> None:
    start, _ = await health(PulseMiddleware(vllm, hang=lambda: hang), path)
    assert start["status"] == 200
