"""Step times at places: those of the map that an engine made before it served, and live ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from tests.contract.engine import Engine
from tests.contract.factories import a_constant, a_push
from tests.contract.measuring import Samples, run_streams, scrape, settled
from tests.gpu.verdicts import Cell

LEASE_SECONDS = 3600

_epochs = count(1)


@dataclass(frozen=True, slots=True)
class Load:
    """How long and with how many streams is measured."""

    streams: int
    tokens: int
    pairs: int


def hold(engine: Engine, k: int) -> None:
    """One K for every batch size."""
    push = a_push(term=1, epoch=next(_epochs), schedule=a_constant(k), lease_seconds=LEASE_SECONDS)
    engine.put(push).raise_for_status()


def mapped_cells(engine: Engine) -> list[Cell]:
    """The map that the engine made before it served."""
    times = engine.state()["stepTimes"]
    assert isinstance(times, list)
    return [
        Cell(t["batchSize"], t["numSpeculativeTokens"], t["contextTokens"], t["stepSeconds"]) for t in times
    ]


def live_cell(engine: Engine, k: int, load: Load) -> Cell | None:
    """The cell with most of the steps of a load."""
    hold(engine, k)
    before = scrape(engine)
    tokens = run_streams(
        engine, streams=load.streams, requests=1, max_tokens=load.tokens, name=f"cell{k}_{load.streams}_"
    )
    return largest_cell(settled(engine, before=before, tokens=tokens), k)


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
