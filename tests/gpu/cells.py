"""Step times at places: those of the startup profile, and live ones."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count

from tests.contract.engine import Engine
from tests.contract.factories import a_constant, a_push
from tests.contract.measuring import Samples, run_streams, scrape, settled
from tests.gpu.verdicts import Cell

LEASE_SECONDS = 3600
ACCEPTED, DRAFTS = (f"vllm:spec_decode_num_{what}_total" for what in ("accepted_tokens", "drafts"))

_epochs = count(1)


@dataclass(frozen=True, slots=True)
class Load:
    """How long and with how many streams is measured."""

    streams: int
    tokens: int
    pairs: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One load with one K. accepted_per_step: accepted tokens per draft of a request; None without drafts.
    cell: its live step time; None without steps of that K alone."""

    streams: int
    k: int
    tokens_per_second: float
    accepted_per_step: float | None
    cell: Cell | None


def hold(engine: Engine, k: int) -> None:
    """One K for every batch size."""
    push = a_push(term=1, epoch=next(_epochs), schedule=a_constant(k), lease_seconds=LEASE_SECONDS)
    engine.put(push).raise_for_status()


def mapped_cells(engine: Engine) -> list[Cell]:
    """The startup profile."""
    times = engine.state()["stepTimes"]
    assert isinstance(times, list)
    return [
        Cell(t["batchSize"], t["numSpeculativeTokens"], t["contextTokens"], t["stepSeconds"]) for t in times
    ]


def live_cell(engine: Engine, k: int, load: Load) -> Cell | None:
    """The cell with most of the steps of a load."""
    return measured(engine, k, load, f"cell{k}_{load.streams}_").cell


def measured(engine: Engine, k: int, load: Load, name: str) -> Measured:
    """Hold one K for one load. name: begins the texts that are asked for."""
    hold(engine, k)
    before, began = scrape(engine), time.perf_counter()
    tokens = run_streams(engine, streams=load.streams, requests=1, max_tokens=load.tokens, name=name)
    seconds = time.perf_counter() - began
    counted = settled(engine, before=before, tokens=tokens)
    drafts = counted.total(DRAFTS)
    accepted = counted.total(ACCEPTED) / drafts if drafts else None
    return Measured(load.streams, k, tokens / seconds, accepted, largest_cell(counted, k))


def largest_cell(counted: Samples, k: int) -> Cell | None:
    """The batch bin with most steps of one K, by its means; None where there is none."""
    steps = counted.by("outrider:steps_total", "batch", k=str(k))
    if not steps:
        return None
    batch = max(steps, key=lambda label: steps[label])
    requests, context, seconds = (
        counted.total(f"outrider:{name}_total", batch=batch, k=str(k))
        for name in ("scheduled_requests", "context_tokens", "step_seconds")
    )
    return Cell(requests / steps[batch], k, context / requests, seconds / steps[batch])
