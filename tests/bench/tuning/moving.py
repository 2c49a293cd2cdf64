"""The moving family: what a law that only knows constant load cannot do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from outrider.performance.step_time import StepTime, read_formula
from outrider_lab.engines.event_engine import Limits
from outrider_lab.engines.event_fleet import Plant
from outrider_lab.scenarios import EventScenario
from outrider_lab.traffic.requests import Burst, Trace, Traffic

TABLES = Path("examples/tables/visible_tables.json")
CODE = (0.85, 0.8, 0.78, 0.75, 0.7)
PROSE = (0.6, 0.5, 0.45, 0.4, 0.4)
KINDS = ("bursts", "task_shift", "context_shift", "drift", "slow_pod", "idle_tax", "lag_and_resets")


def engines() -> Mapping[str, StepTime]:
    """A published one, and one that runs out of compute at small batches."""
    formula = json.loads(TABLES.read_text(encoding="utf-8"))["formulas"][0]
    published, _ = read_formula(formula)
    return {
        "h100_8b": StepTime(
            published.fixed,
            published.per_kv_token,
            published.per_token,
            published.draft_fixed,
            published.draft_per_kv_token,
            published.draft_per_token,
            idle_tax=0.08,
        ),
        "small": StepTime(0.02, 5e-8, 6e-4, 1.5e-3, 5e-9, 5e-5, idle_tax=0.1),
    }


def scenario(kind: str, engine: str, seed: int, seconds: float = 300.0) -> EventScenario:
    """One trace on one engine. seconds: of a phase."""
    step = engines()[engine]
    scale = 4.0 if engine == "h100_8b" else 1.0
    phases, plant, pods, interval = _parts(kind, step, scale, seconds)
    trace = Trace(phases, pods=pods, seed=seed)
    return EventScenario(f"{kind}/{engine}", plant, trace, interval=interval)


def _parts(
    kind: str, step: StepTime, scale: float, seconds: float
) -> tuple[tuple[Traffic, ...], Plant, int, float]:
    """Phases, engines, pods, seconds between decisions. scale: of output lengths, as engines are fast."""
    limits = Limits(max_num_seqs=64)

    output = 300.0 * scale

    def closed(streams: int, acceptance: tuple[float, ...], label: str, **more: float) -> Traffic:
        return Traffic(seconds, acceptance, streams=streams, output=output, label=label, **more)  # type: ignore[arg-type]

    shift = (closed(8, CODE, "code"), closed(8, PROSE, "prose"), closed(8, CODE, "code again"))
    match kind:
        case "bursts":
            burst = Burst(on_seconds=30.0, off_seconds=30.0, off_factor=0.1)
            rates = (0.8, 1.6, 0.4)
            phases = tuple(
                Traffic(seconds, CODE, rate=rate, output=output, burst=burst, label=f"{rate:g}/s")
                for rate in rates
            )
            return phases, Plant(step, limits), 1, 5.0
        case "task_shift":
            return shift, Plant(step, limits), 1, 5.0
        case "context_shift":
            phases = tuple(
                closed(16, CODE, f"context {prompt:g}", prompt=prompt) for prompt in (400.0, 4000.0, 400.0)
            )
            return phases, Plant(step, limits), 1, 5.0
        case "drift":
            low = tuple(0.6 * a for a in CODE)
            first = Traffic(2 * seconds, CODE, streams=8, output=output, drift_to=0.6, label="drifting")
            return (first, closed(8, low, "low")), Plant(step, limits), 1, 5.0
        case "slow_pod":
            loads = (closed(4, CODE, "4"), closed(20, CODE, "20"), closed(20, PROSE, "20 prose"))
            return loads, Plant(step, limits, slowness=(1.0, 1.0, 2.0)), 3, 5.0
        case "idle_tax":
            taxed = replace(step, idle_tax=0.2)
            loads = (
                closed(24, PROSE, "24 prose"),
                closed(4, PROSE, "4 prose"),
                closed(24, PROSE, "24 again"),
            )
            return loads, Plant(taxed, limits), 1, 5.0
        case "lag_and_resets":
            plant = Plant(step, limits, scrape_lag=4.0, resets=(0.5 * seconds, 1.6 * seconds))
            return (shift[0], shift[1], closed(24, CODE, "24 code")), plant, 1, 5.0
    raise ValueError(f"unknown kind {kind!r}")
