"""One engine for the fast loop: step times, drafts by chance, and counts that come a step late."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider_protocol.cost_model import CostModel
from outrider_protocol.fast_loop import FastLoop
from outrider_protocol.schedule import Row, Schedule

KS = (0, 1, 2, 3, 5)


def seconds(batch: int, k: int) -> float:
    """Of one step with some hundred tokens per request."""
    return 0.008 + 3e-5 * batch * (k + 1) + k * 0.0012


def a_model(*limits: Row, candidates: tuple[int, ...] = KS, slope: float = 2e-8) -> CostModel:
    """Of that engine, exact."""
    batches = (1, 2, 4, 8, 16, 32, 64)
    return CostModel(
        revision="r",
        candidates=candidates,
        batch_sizes=batches,
        step_seconds=tuple(tuple(seconds(batch, k) for k in candidates) for batch in batches),
        errors=((0.03,) * len(candidates),) * len(batches),
        context_tokens=1000.0,
        context_slopes=tuple(slope * (k + 1) for k in candidates),
        limits=Schedule(limits or (Row(None, 5),)),
    )


@dataclass
class AnEngine:
    """Serves text whose drafts are accepted by chance, each position as often as the one before."""

    loop: FastLoop
    batch: int = 8
    now: float = 0.0
    tokens: float = 0.0
    chosen: list[int] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    _late: tuple[int, int, Sequence[int]] | None = None

    def serve(self, acceptance: float, for_seconds: float, *, new_requests: int = 0) -> list[int]:
        """K of each step of some seconds."""
        begin, end = len(self.chosen), self.now + for_seconds
        while self.now < end:
            self.step(acceptance, new_requests)
        return self.chosen[begin:]

    def step(self, acceptance: float, new_requests: int = 0) -> int:
        """One step."""
        k = self.loop.choose(self.batch, self.batch * 1000, new_requests)
        if self._late is not None:
            self.loop.count(*self._late)
        accepted, alive = [], self.batch
        for _ in range(k):
            alive = sum(self.chance.random() < acceptance for _ in range(alive))
            accepted.append(alive)
        self._late = (k, self.batch, accepted)
        self.now += seconds(self.batch, k)
        self.tokens += self.batch + sum(accepted)
        self.chosen.append(k)
        return k
