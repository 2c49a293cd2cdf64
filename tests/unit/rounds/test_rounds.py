"""Work that recurs in rounds: what is silent delays no later round, and never runs twice at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from outrider.rounds import Rounds

Work = Callable[[], Coroutine[Any, Any, None]]
NEVER_SECONDS = 3600.0
SHORT_SECONDS = 0.02


class Scene:
    """Rounds of a silent key and a prompt one, with counts of their work."""

    def __init__(self, patience_seconds: float = SHORT_SECONDS) -> None:
        self.rounds = Rounds[str](patience_seconds)
        self.answers = asyncio.Event()
        self.begun: list[str] = []

    async def silent(self) -> None:
        self.begun.append("silent")
        await self.answers.wait()

    async def prompt(self) -> None:
        self.begun.append("prompt")

    async def round(self, **works: Work) -> None:
        async with asyncio.timeout(60):
            await self.rounds.run(works)

    async def with_a_late_key(self) -> None:
        """A round that ended before the work of `silent`, which ended then."""
        running = asyncio.create_task(self.rounds.run({"silent": self.silent}))
        async with asyncio.timeout(60):
            while not self.begun:
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait({running})
            self.answers.set()
            await self.rounds.ended()
        self.answers.clear()
        self.begun.clear()


async def test_a_round_waits_for_all_that_ends() -> None:
    scene = Scene(NEVER_SECONDS)
    running = asyncio.create_task(scene.round(silent=scene.silent, prompt=scene.prompt))
    async with asyncio.timeout(60):
        while len(scene.begun) < 2:
            await asyncio.sleep(0)
        assert not running.done()
        scene.answers.set()
        await running
    assert (scene.rounds.running, scene.rounds.late) == (set(), set())


async def test_a_round_is_over_when_nothing_ends_any_more() -> None:
    scene = Scene()
    await scene.round(silent=scene.silent, prompt=scene.prompt)
    assert scene.rounds.running == {"silent"}
    await scene.rounds.aclose()


async def test_a_key_has_one_piece_of_work_at_a_time() -> None:
    scene = Scene()
    for _ in range(3):
        await scene.round(silent=scene.silent, prompt=scene.prompt)
    assert scene.begun == ["silent", "prompt", "prompt", "prompt"]
    await scene.rounds.aclose()


async def test_no_round_waits_for_a_late_key_beside_others() -> None:
    scene = Scene(NEVER_SECONDS)
    await scene.with_a_late_key()
    assert scene.rounds.late == {"silent"}
    await scene.round(silent=scene.silent, prompt=scene.prompt)
    assert scene.rounds.running == {"silent"}
    await scene.rounds.aclose()


@pytest.mark.parametrize("others", [True, False], ids=["beside others", "alone"])
async def test_a_key_is_late_until_its_work_ends_within_a_round(others: bool) -> None:
    scene = Scene(NEVER_SECONDS)
    await scene.with_a_late_key()
    await scene.round(silent=scene.prompt, **({"prompt": scene.prompt} if others else {}))
    assert scene.rounds.late == set()


async def test_work_that_fails_counts_as_ended() -> None:
    async def failing() -> None:
        raise ValueError("a defect")

    scene = Scene(NEVER_SECONDS)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    await scene.round(failing=failing, prompt=scene.prompt)
    assert (scene.rounds.running, scene.rounds.late) == (set(), set())


async def test_the_end_cancels_what_runs() -> None:
    scene = Scene()
    await scene.round(silent=scene.silent, prompt=scene.prompt)
    async with asyncio.timeout(60):
        await scene.rounds.aclose()
    assert scene.rounds.running == set()


async def test_a_key_that_is_gone_is_late_no_more() -> None:
    scene = Scene()
    await scene.with_a_late_key()
    scene.rounds.keep({"prompt"})
    assert scene.rounds.late == set()
