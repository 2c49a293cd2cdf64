"""Before anything counts, every prompt is read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

import pytest

from examples.kit.cluster import RunFailed
from examples.kit.loads import Load, Prompts
from examples.kit.prompts import PROMPTS
from examples.kit.records import Count
from examples.kit.warm_up import Patience, warm_up
from tests.unit.kit.factories import a_count

PATIENCE = Patience(rounds=3, seconds=5.0, tokens=2)


@dataclass(frozen=True)
class FakeTraffic:
    """Reads so many prompts in each round."""

    read: Sequence[int]
    failed: int = 0
    max_tokens: int = 128
    rounds: list[tuple[Prompts, float, int]] = field(default_factory=list)

    async def hold(self, load: Load, seconds: float) -> AsyncGenerator[Count]:
        assert load.streams > 0
        self.rounds.append((load.prompts, seconds, self.max_tokens))
        yield a_count(1.0, requests=self.read[len(self.rounds) - 1], failed=self.failed)


async def told(traffic: FakeTraffic, prompts: Prompts) -> list[str]:
    said: list[str] = []
    await warm_up(traffic, prompts, PATIENCE, said.append)  # type: ignore[arg-type]
    return said


async def test_rounds_end_with_the_one_that_read_every_prompt() -> None:
    traffic = FakeTraffic((PROMPTS // 2, PROMPTS, PROMPTS))
    assert await told(traffic, Prompts.CODE) == ["warming up: every code prompt is read once"]
    assert traffic.rounds == [(Prompts.CODE, 5.0, 2)] * 2


async def test_a_run_does_not_begin_where_requests_fail() -> None:
    with pytest.raises(RunFailed, match="requests fail before the run: boom"):
        await told(FakeTraffic((1,), failed=1), Prompts.CODE)
