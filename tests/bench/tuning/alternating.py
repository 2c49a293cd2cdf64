"""``python -m tests.bench.tuning.alternating``: two texts by turns, one of which is drafted better.

Agents write prose, then JSON, then code; shared models and n-gram drafters see the same. A cell holds one
number of streams and swaps two texts every so many seconds. The figure is goodput over that of the best
fixed K, which is chosen afterwards. The fast loop and the tuner begin with step times of 3 % error.
Simulated: formulas, no engine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean

from outrider.performance.step_time import StepTime
from outrider_lab.engines.formula_engine import FormulaPhase
from outrider_lab.maps import MapErrors
from outrider_lab.replay import Replay
from outrider_lab.scenario_runs import run_scenario, scenario_map, static_runs
from outrider_lab.scenarios import FormulaScenario
from tests.bench import results
from tests.bench.tuning.families import MAP_ERROR, RIVALS
from tests.bench.tuning.steps import claims

CONTRASTS = {
    "harsh": ((0.9, 0.9, 0.88, 0.88, 0.85), (0.12, 0.1, 0.1, 0.1, 0.1)),
    "near": ((0.85, 0.82, 0.8, 0.78, 0.75), (0.45, 0.35, 0.3, 0.3, 0.3)),
    "mild": ((0.8, 0.75, 0.7, 0.7, 0.7), (0.3, 0.25, 0.2, 0.2, 0.2)),
}
"""Acceptance by position of both texts, given that the position before was accepted."""
STREAMS = (2, 8, 24)
TURNS = (20.0, 60.0, 120.0, 300.0)
"""Seconds. With `CONTRASTS` and `STREAMS`, the 36 cells of the headline figure."""
STEP = StepTime(
    fixed=0.008,
    per_kv_token=2e-8,
    per_token=3e-5,
    draft_fixed=0.0012,
    draft_per_kv_token=2e-9,
    draft_per_token=3e-6,
    idle_tax=0.02,
)
OUTRIDER = "outrider"
FAST_LOOP = "fast-loop"
ORACLE = "oracle"
POLICIES = (OUTRIDER, "outrider-schedule", FAST_LOOP, *RIVALS, ORACLE)
"""`outrider-schedule` is the tuner on engines without a fast loop."""

Row = dict[str, object]


@dataclass(frozen=True)
class Cell:
    """What alternates, for how many streams, and how often."""

    contrast: str
    streams: int
    turn: float  # seconds
    group: str = "main"
    overhead: float = 0.02  # relative, of the idle drafter at K=0
    interval: float = 5.0  # seconds between ticks
    mixed: bool = False  # half of the streams write the other text at the same time

    def scenario(self, seed: int) -> FormulaScenario:
        """4 to 40 turns, about 400 seconds where that is between."""
        first, second = CONTRASTS[self.contrast]
        turns = 2 * max(2, min(20, round(200.0 / self.turn)))
        phases = tuple(
            FormulaPhase(
                self.streams,
                self.turn,
                (first, second)[index % 2],
                second=(second, first)[index % 2] if self.mixed else None,
            )
            for index in range(turns)
        )
        step = replace(STEP, idle_tax=self.overhead)
        name = f"{self.contrast}, {self.streams} streams, {self.turn:g} s"
        return FormulaScenario(name, step, phases, interval=self.interval, seed=seed)


def main_cells() -> Iterator[Cell]:
    """The 36 cells of the headline figure."""
    for contrast, streams, turn in product(CONTRASTS, STREAMS, TURNS):
        yield Cell(contrast, streams, turn)


def short_cells() -> Iterator[Cell]:
    """Turns that no tick can follow, and the smallest and largest batch."""
    for contrast, streams, turn in product(CONTRASTS, (1, 2, 8, 24, 64), (5.0, 10.0)):
        yield Cell(contrast, streams, turn, "short turns")


def other_cells() -> Iterator[Cell]:
    """One thing at a time is another than in the 36 cells."""
    for contrast, streams in product(CONTRASTS, (1, 64)):
        yield from (Cell(contrast, streams, turn, "other batches") for turn in (20.0, 120.0))
    for contrast, streams in product(CONTRASTS, STREAMS):
        yield Cell(contrast, streams, 600.0, "turns of 600 s")
        for overhead in (0.0, 0.03, 0.1):
            yield Cell(contrast, streams, 20.0, f"overhead {overhead:g}", overhead=overhead)
        for interval in (10.0, 30.0):
            yield Cell(contrast, streams, 60.0, f"ticks of {interval:g} s", interval=interval)
    for contrast, streams, turn in product(CONTRASTS, (2, 8, 64), (10.0, 60.0)):
        yield Cell(contrast, streams, turn, "two classes at once", mixed=True)


def cells(*, everything: bool) -> list[Cell]:
    """The 36 cells and the short turns, or all."""
    return [*main_cells(), *short_cells(), *(other_cells() if everything else ())]


def goodput(run: Replay) -> float:
    """Tokens per second of engine time."""
    return sum(span.tokens for span in run.spans) / sum(span.engine_seconds for span in run.spans)


def measured(cell: Cell, seed: int, policies: Sequence[str]) -> Row:
    """One cell with one seed: gain of each policy over the best fixed K."""
    case = cell.scenario(seed)
    fixed = {name.removeprefix("static:"): goodput(run) for name, run in static_runs(case).items()}
    best = max(fixed, key=lambda k: fixed[k])
    step_times = scenario_map(case, MapErrors(MAP_ERROR))
    gains = {
        policy: goodput(run_scenario(case, policy, step_times=step_times)[0]) / fixed[best] - 1
        for policy in policies
    }
    return {**asdict(cell), "seed": seed, "best_fixed": best, "fixed": fixed, "gains": gains}


def summary(rows: Iterable[Row], policies: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """By group and policy: mean gain, worst cell (mean over seeds), worst run, ratio of the oracle's gain."""
    groups: dict[str, dict[tuple[object, ...], list[Mapping[str, float]]]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("contrast", "streams", "turn"))
        groups.setdefault(str(row["group"]), {}).setdefault(key, []).append(row["gains"])  # type: ignore[arg-type]
    found: dict[str, dict[str, dict[str, float]]] = {}
    for group, by_cell in groups.items():
        bound = mean(mean(run[ORACLE] for run in runs) for runs in by_cell.values())
        for policy in policies:
            means = [mean(run[policy] for run in runs) for runs in by_cell.values()]
            found.setdefault(group, {})[policy] = {
                "mean": mean(means),
                "worst_cell": min(means),
                "worst_run": min(run[policy] for runs in by_cell.values() for run in runs),
                "ratio_of_oracle": mean(means) / bound if bound > 0 else float("nan"),
            }
    return found


def text(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """A table for each group, in percent over the best fixed K."""
    lines = []
    for group, policies in found.items():
        lines.append(f"\n{group:22s} {'mean':>7s} {'worst cell':>11s} {'worst run':>10s} {'of oracle':>10s}")
        for policy, each in sorted(policies.items(), key=lambda pair: -pair[1]["mean"]):
            lines.append(
                f"{policy:22s} {each['mean']:+7.1%} {each['worst_cell']:+11.1%} {each['worst_run']:+10.1%}"
                f" {each['ratio_of_oracle']:10.0%}"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Run the cells, print the summary, and write all of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tuning.alternating", description=__doc__)
    parser.add_argument("--all", action="store_true", help="more batches, overheads, ticks and two classes")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--policy", action="append", choices=POLICIES, help="default: all; the oracle always runs"
    )
    parser.add_argument("--output", type=Path, default=Path("out/bench/alternating.json"))
    parser.add_argument("--quick", action="store_true", help="the 36 cells of the headline alone")
    options = parser.parse_args(arguments)
    policies = tuple(dict.fromkeys((*(options.policy or POLICIES), ORACLE)))
    began = datetime.now(UTC)
    chosen = list(main_cells()) if options.quick else cells(everything=options.all)
    jobs = list(product(chosen, range(options.seeds)))
    with ProcessPoolExecutor(options.jobs) as pool:
        rows: list[Row] = []
        for row in pool.map(partial(_job, policies), jobs):
            rows.append(row)
            if len(rows) % 10 == 0 or len(rows) == len(jobs):
                print(f"{len(rows)} of {len(jobs)} runs", flush=True)
        claimed = claims(list(CONTRASTS.values()), STEP, pool.map)
    found = summary(rows, policies)
    print(text(found))
    print("\n".join(f"{name}: {value}" for name, value in claimed.items()))
    head = results.head("tests.bench.tuning.alternating", arguments, began)
    results.write(options.output, {**head, "summary": found, "claims": claimed, "runs": rows})


def _job(policies: Sequence[str], job: tuple[Cell, int]) -> Row:
    return measured(*job, policies)


if __name__ == "__main__":
    main(sys.argv[1:])
