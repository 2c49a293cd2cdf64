"""Short ways to say what an engine is and what is pushed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from outrider_engine.control.core import EngineCoreControl
from outrider_engine.control.push import Limits
from outrider_engine.control.verbs import Verb
from outrider_engine.counting.measure import Meter, Step
from outrider_engine.vllm_adapter.support import VllmFacts, abilities
from outrider_protocol.control_api import Fence, ProbeOrder, Push, Slice
from outrider_protocol.cost_model import CostModel
from outrider_protocol.releases import Runner
from outrider_protocol.schedule import Row, Schedule

CANDIDATES = (0, 1, 2, 3, 5)
MAX_NUM_SEQS = 16
LAUNCHED = (0, 0, 1, 2, 3, *[5] * 12)
"""The lookup of a launch table: one batch size per candidate, the largest on the rest."""


def a_table(*rows: tuple[int, int], above: int = 0) -> Schedule:
    """``a_table((8, 3), above=0)`` is 8:3,*:0."""
    return Schedule((*(Row(size, k) for size, k in rows), Row(None, above)))


def a_push(
    *,
    term: int = 1,
    epoch: int = 1,
    table: Schedule | None = None,
    lease_seconds: float = 60,
    cost_model: CostModel | None = None,
) -> Push:
    return Push(
        Fence(term, epoch), Schedule.constant(3) if table is None else table, lease_seconds, cost_model
    )


REVISION = f"draft_model/{MAX_NUM_SEQS}/5"
"""Of `some_facts`."""


def a_cost_model(
    *,
    candidates: Sequence[int] = CANDIDATES,
    revision: str = REVISION,
    max_k: int = 5,
    per_draft: float = 0.001,
) -> CostModel:
    """Steps of 20 ms, and so much more for each draft token."""
    return CostModel(
        revision=revision,
        candidates=tuple(candidates),
        batch_sizes=(1, MAX_NUM_SEQS),
        step_seconds=(tuple(0.02 + per_draft * k for k in candidates),) * 2,
        errors=((0.02,) * len(candidates),) * 2,
        context_tokens=100.0,
        context_slopes=(0.0,) * len(candidates),
        limits=Schedule.constant(max_k),
    )


def a_probe(
    *slices: Slice,
    term: int = 1,
    epoch: int = 1,
    name: str = "p1",
    low: int = 7,
    high: int | None = 12,
    deadline_seconds: float = 20,
) -> ProbeOrder:
    return ProbeOrder(
        Fence(term, epoch),
        name,
        low,
        high,
        slices or (Slice(1, steps=2), Slice(5, steps=2)),
        deadline_seconds,
    )


def a_step(
    *, batch: int = 8, k: int = 1, mixed: bool = False, seconds: float = 0.1, emitted: int = 10
) -> Step:
    return Step(batch, k, mixed, seconds, emitted)


def some_limits(*, max_num_seqs: int = MAX_NUM_SEQS, captured: Sequence[int] = CANDIDATES) -> Limits:
    return Limits(max_num_seqs, frozenset(captured))


def some_facts(
    *,
    method: str | None = "draft_model",
    runner: Runner = Runner.V1,
    data_parallel_size: int = 1,
    max_num_seqs: int = MAX_NUM_SEQS,
) -> VllmFacts:
    return VllmFacts(
        engine_version="0.32.0",
        method=method,
        runner=runner,
        max_num_seqs=max_num_seqs,
        num_speculative_tokens=max(CANDIDATES),
        data_parallel_size=data_parallel_size,
    )


@dataclass
class FakeScheduler:
    """The scheduler as the control sees it. running: the context of each running request."""

    lookup: list[int] | None = field(default_factory=lambda: list(LAUNCHED))
    running: Sequence[int] = ()

    def running_contexts(self) -> list[int]:
        return list(self.running)


class EnginesByVerb:
    """Engine cores whose method of a verb's name answers it."""

    async def call(self, verb: Verb[Any, Any], payload: object) -> Any:
        return await getattr(self, verb.name)(payload)

    async def call_all(self, verb: Verb[None, Any]) -> list[Any]:
        return [await self.call(verb, None)]

    def model_name(self) -> str:
        return "tiny"

    async def generate(self, prompt: list[int], tokens: int) -> list[int]:
        raise NotImplementedError

    async def likeliest(self, prompt: list[int]) -> dict[int, float]:
        raise NotImplementedError


@dataclass
class FakeClock:
    """Monotonic seconds that move when the test says so."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


STATIC = a_table((8, 2), above=0)


def a_control(
    scheduler: FakeScheduler,
    *,
    clock: Callable[[], float] | None = None,
    read_static: Callable[[], Schedule | None] = lambda: STATIC,
    facts: VllmFacts | None = None,
    counted: bool = True,
    measuring: bool = True,
) -> EngineCoreControl:
    facts = facts or some_facts()
    return EngineCoreControl(
        scheduler,
        facts,
        abilities(facts, has_table=scheduler.lookup is not None, counted=counted),
        read_static=read_static,
        meter=Meter(MAX_NUM_SEQS, max(CANDIDATES)) if counted else None,
        measuring=measuring,
        clock=clock or FakeClock(),
    )
