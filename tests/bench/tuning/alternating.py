"""``python -m tests.bench.tuning.alternating``: text that alternates faster than a tick can follow.

Agents write prose, then JSON, then code; shared models and n-gram drafters see the same. Each scenario holds
one number of streams for half an hour and swaps two texts every so many seconds. The figure is goodput over
that of the best single K, which is chosen afterwards. Simulated: formulas, no engine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import mean

from outrider.simulate.engines.formula_engine import FormulaPhase
from outrider.simulate.engines.step_time import StepTime
from outrider.simulate.replay import Replay
from outrider.simulate.scenario_runs import run_scenario, static_runs
from outrider.simulate.scenarios import FormulaScenario
from tests.bench import results

SECONDS = 1800.0
CONTRASTS = {
    "harsh": ((0.9, 0.9, 0.88, 0.88, 0.85), (0.12, 0.1, 0.1, 0.1, 0.1)),
    "mild": ((0.8, 0.75, 0.7, 0.7, 0.7), (0.3, 0.25, 0.2, 0.2, 0.2)),
}
"""Acceptance by position of both texts, given that the position before was accepted."""
STEP = StepTime(
    fixed=0.008,
    per_kv_token=2e-8,
    per_token=3e-5,
    draft_fixed=0.0012,
    draft_per_kv_token=2e-9,
    draft_per_token=3e-6,
    idle_tax=0.02,
)


def scenario(contrast: str, streams: int, turn: float, seed: int) -> FormulaScenario:
    """Half an hour of two texts by turns of so many seconds."""
    texts = CONTRASTS[contrast]
    phases = tuple(FormulaPhase(streams, turn, texts[i % 2]) for i in range(round(SECONDS / turn)))
    return FormulaScenario(f"{contrast}, {streams} streams, {turn:g} s", STEP, phases, seed=seed)


def goodput(run: Replay) -> float:
    """Tokens per second of engine time."""
    return sum(span.tokens for span in run.spans) / sum(span.engine_seconds for span in run.spans)


def measured(contrast: str, streams: int, turn: float, seed: int) -> dict[str, object]:
    """One cell with one seed."""
    case = scenario(contrast, streams, turn, seed)
    run, _ = run_scenario(case, "outrider")
    held = {name.removeprefix("static:"): goodput(one) for name, one in static_runs(case).items()}
    best = max(held, key=lambda k: held[k])
    return {
        "contrast": contrast,
        "streams": streams,
        "turn_seconds": turn,
        "seed": seed,
        "outrider": goodput(run),
        "held": held,
        "best_held": best,
        "over_best_held": goodput(run) / held[best] - 1,
    }


def main(arguments: Sequence[str]) -> None:
    """Run the cells, print a line for each, and write all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tuning.alternating", description=__doc__)
    parser.add_argument("--contrast", action="append", choices=CONTRASTS)
    parser.add_argument("--streams", type=int, action="append")
    parser.add_argument("--turn", type=float, action="append", help="seconds until the text changes")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("out/bench/alternating.json"))
    options = parser.parse_args(arguments)
    began = datetime.now(UTC)
    cells = product(
        options.contrast or list(CONTRASTS),
        options.streams or [2, 8, 24],
        options.turn or [20.0, 60.0, 120.0],
    )
    rows: list[dict[str, object]] = []
    for contrast, streams, turn in cells:
        found = [measured(contrast, streams, turn, seed) for seed in range(options.seeds)]
        each = [float(str(one["over_best_held"])) for one in found]
        print(
            f"{contrast}, {streams} streams, turns of {turn:g} s: {mean(each):+.1%}"
            f" ({min(each):+.1%} to {max(each):+.1%}) over the best held K",
            flush=True,
        )
        rows += found
    head = results.head("tests.bench.tuning.alternating", arguments, began)
    results.write(options.output, {**head, "runs": rows})


if __name__ == "__main__":
    main(sys.argv[1:])
