"""Before anything counts, every prompt is read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

import pytest

from examples.demo.cluster import DemoFailed
from examples.demo.measure import Second
from examples.demo.prompts import PROMPTS, Kind
from examples.demo.warm_up import Patience, warm_up
from tests.unit.demo.factories import a_second

PATIENCE = Patience(rounds=3, seconds=5.0, tokens=2)


@dataclass(frozen=True)
class FakeTraffic:
    """Reads so many prompts in each round."""

    read: Sequence[int]
    failed: int = 0
    max_tokens: int = 128
    rounds: list[tuple[tuple[Kind, ...], float, int]] = field(default_factory=list)

    async def hold(self, streams: int, kinds: Sequence[Kind], seconds: float) -> AsyncGenerator[Second]:
        assert streams > 0
        self.rounds.append((tuple(kinds), seconds, self.max_tokens))
        yield a_second(1.0, requests=self.read[len(self.rounds) - 1], failed=self.failed)


async def told(traffic: FakeTraffic, *kinds: Kind) -> list[str]:
    said: list[str] = []
    await warm_up(traffic, kinds, PATIENCE, said.append)  # type: ignore[arg-type]
    return said


async def test_rounds_end_with_the_one_that_read_every_prompt() -> None:
    traffic = FakeTraffic((PROMPTS // 2, PROMPTS, PROMPTS))
    assert await told(traffic, Kind.CODE) == ["warming up: every code prompt is read once"]
    assert traffic.rounds == [((Kind.CODE,), 5.0, 2)] * 2


async def test_two_kinds_have_twice_as_many_prompts() -> None:
    traffic = FakeTraffic((PROMPTS, 2 * PROMPTS))
    await told(traffic, Kind.CODE, Kind.PROSE)
    assert len(traffic.rounds) == 2


async def test_an_engine_that_is_too_slow_is_told() -> None:
    *_, last = await told(FakeTraffic((1, 2, 3)), Kind.PROSE)
    assert last.endswith(f"only 3 of {PROMPTS} prose prompts were read in one go")


async def test_a_run_does_not_begin_where_requests_fail() -> None:
    with pytest.raises(DemoFailed, match="requests fail before the run: boom"):
        await told(FakeTraffic((1,), failed=1), Kind.CODE)
