"""``python -m tests.bench.tuning.latency``: the law and other rules under a limit on latency.

Moving traffic of the report half, with limits that bind: some K keep them and the best one often does
not, and in some phases none does. Prints how often each rule broke its limit, and what it made of what the
limit allows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np

from outrider_lab.limits import under_limit
from outrider_lab.maps import MapErrors
from outrider_lab.replay import Replay
from outrider_lab.scenario_runs import run_scenario, scenario_map
from outrider_lab.scenarios import EventScenario
from tests.bench.tuning.families import ENGINES, MAP_ERROR
from tests.bench.tuning.moving import KINDS, scenario

LIMITS: Mapping[str, float] = {
    "bursts": 0.1,
    "task_shift": 0.013,
    "context_shift": 0.06,
    "drift": 0.011,
    "slow_pod": 0.08,
    "idle_tax": 0.012,
    "lag_and_resets": 0.05,
}
"""Seconds that nine of ten gaps between two outputs must not exceed, by kind of traffic."""

EDGES = (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
"""Of a histogram that is made for the limit, in parts of it."""

_MEAN = {"latency_risk": 0.5, "latency_tail": 0.0, "latency_tail_deviation": 0.0}
RULES: Mapping[str, tuple[str, bool, bool, Mapping[str, float]]] = {
    "outrider": ("outrider", False, False, {}),
    "map": ("outrider", True, False, {}),
    "map, edges": ("outrider", True, True, {}),
    "map, edges, risk 0.5": ("outrider", True, True, {"latency_risk": 0.5}),
    "map, mean step": ("outrider", True, False, _MEAN),
    "latency-steps": ("latency-steps", False, False, {}),
    "latency-steps, edges": ("latency-steps", False, True, {}),
    "map, no limit": ("outrider", True, False, {"inter_token_latency_limit": 1e3}),
    **{f"static:{k}": (f"static:{k}", False, False, {}) for k in (0, 1, 2, 3, 5)},
}
"""Policy, whether it has a map, whether the histogram is made for the limit, numbers of the law changed."""

Row = dict[str, object]


def runs(kind: str, seed: int) -> list[Row]:
    """One row for every rule."""
    case = scenario(kind, ENGINES[(KINDS.index(kind) + 1) % 2], seed)
    rows = []
    for name in RULES:
        found = under_limit(_run(case, name, LIMITS[kind]), case, LIMITS[kind])
        rows.append({"kind": kind, "seed": seed, "rule": name, **asdict(found)})
    return rows


def _run(case: EventScenario, name: str, limit: float) -> Replay:
    policy, mapped, edged, changes = RULES[name]
    if edged:
        edges = tuple(limit * part for part in EDGES)
        case = replace(case, plant=replace(case.plant, edges=edges))
    step_times = scenario_map(case, MapErrors(MAP_ERROR)) if mapped else None
    return run_scenario(case, policy, {"inter_token_latency_limit": limit, **changes}, step_times=step_times)[
        0
    ]


def text(rows: Sequence[Row]) -> Iterator[str]:
    """Means over kinds, with 95 % over seeds."""
    for name in RULES:
        mine = [row for row in rows if row["rule"] == name]
        yield f"{name:16s} " + "  ".join(_figure(mine, key) for key in ("broken", "goodput", "kept"))


def _figure(rows: Sequence[Row], key: str) -> str:
    seeds = sorted({row["seed"] for row in rows}, key=str)
    means = [float(np.nanmean([row[key] for row in rows if row["seed"] == s])) for s in seeds]
    error = 1.96 * float(np.std(means, ddof=1)) / len(means) ** 0.5 if len(means) > 1 else 0.0
    return f"{key} {100 * float(np.mean(means)):6.2f} ± {100 * error:.2f} %"


def main() -> None:
    """Print a table; an interrupted run continues."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--out", type=Path, default=Path("out/bench/tuning/latency.jsonl"))
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    for seed, kind in product(range(options.seeds), KINDS):
        if any((row["seed"], row["kind"]) == (seed, kind) for row in done):
            continue
        found = runs(kind, seed)
        done += found
        with options.out.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in found)
    print("\n".join(text(done)))


if __name__ == "__main__":
    main()
