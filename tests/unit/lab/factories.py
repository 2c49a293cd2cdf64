"""Small tables, engines and traffic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from outrider.performance.step_time import StepTime
from outrider.performance.throughput_table import ThroughputTable
from outrider_lab.engines.event_engine import Limits
from outrider_lab.engines.event_fleet import Plant
from outrider_lab.engines.table_engine import Phase, TableFleet
from outrider_lab.scenarios import EventScenario
from outrider_lab.traffic.requests import Trace, Traffic
from outrider_protocol.bins import geometric_bins
from outrider_protocol.schedule import Schedule

VISIBLE = Path("examples/tables/visible_tables.json")
EDGES = geometric_bins(64)
K1 = Schedule.constant(1)
CODE = (0.85, 0.8, 0.78, 0.75, 0.7)


def a_table(
    rows: Sequence[Sequence[float]] = ((50, 90), (300, 360), (600, 500)),
    batch_sizes: Sequence[int] = (1, 8, 32),
    candidates: Sequence[int] = (0, 1),
    **changes: object,
) -> ThroughputTable:
    return ThroughputTable(
        "small",
        tuple(batch_sizes),
        tuple(candidates),
        tuple(map(tuple, rows)),
        **changes,  # type: ignore[arg-type]
    )


def a_file(**changes: object) -> str:
    """A file with one table; fields replaced."""
    table: dict[str, object] = {
        "name": "small",
        "batch_sizes": [1, 8],
        "num_speculative_tokens": [0, 1],
        "tokens_per_second": [[50, 90], [300, 360]],
    }
    return json.dumps({"tables": [{**table, **changes}]})


def a_fleet(
    *,
    load: int = 8,
    seconds: float = 1e6,
    noise: float = 0.0,
    seed: int = 0,
    speeds: Sequence[float] = (1.0,),
) -> TableFleet:
    rng = np.random.default_rng(seed)
    return TableFleet([Phase(load, seconds, a_table())], edges=EDGES, rng=rng, noise=noise, speeds=speeds)


def a_step(**changes: float) -> StepTime:
    values: dict[str, Any] = {
        "fixed": 0.02,
        "per_kv_token": 5e-8,
        "per_token": 6e-4,
        "draft_fixed": 1.5e-3,
        "draft_per_kv_token": 5e-9,
        "draft_per_token": 5e-5,
        "idle_tax": 0.1,
    }
    return StepTime(**{**values, **changes})


def a_scenario(
    *phases: Traffic,
    seed: int = 0,
    limits: Limits | None = None,
    step: StepTime | None = None,
    **plant: object,
) -> EventScenario:
    trace = Trace(phases or (closed(8),), pods=len(plant.get("slowness", (1.0,))), seed=seed)  # type: ignore[arg-type]
    engines = Plant(step or a_step(), limits or Limits(), **plant)  # type: ignore[arg-type]
    return EventScenario("small", engines, trace, candidates=(0, 1, 3))


def closed(streams: int, *, seconds: float = 60.0, **changes: object) -> Traffic:
    return Traffic(seconds, CODE, streams=streams, **changes)  # type: ignore[arg-type]


def opened(rate: float, *, seconds: float = 60.0, **changes: object) -> Traffic:
    return Traffic(seconds, CODE, rate=rate, **changes)  # type: ignore[arg-type]
