"""``python -m tests.bench.sglang``: Outrider against SGLang's adaptive mode, on real SGLang (simulated)."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import results
from tests.bench.sglang import plan
from tests.bench.sglang.engines import ARMS, OUTRIDER, install
from tests.bench.sglang.runs import Row, run
from tests.bench.sglang.summary import summary, text


def main(arguments: Sequence[str]) -> None:
    """Run each arm so many times by turns, print the summary, and write all of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sglang", description=__doc__)
    parser.add_argument("--engine", choices=sorted(plan.STEP_TIMES), default="h100_8b")
    parser.add_argument("--arm", action="append", choices=ARMS, help="default: all")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="number of the first repeat, which seeds texts")
    parser.add_argument("--fixed-repeats", type=int, default=1, help="of fixed K, behind the arm outrider")
    parser.add_argument("--time-factor", type=float, default=1.0, help="of all step times")
    parser.add_argument("--scale", type=float, default=1.0, help="of the length of phases")
    parser.add_argument("--output", type=Path, default=Path("out/bench/sglang.json"))
    options = parser.parse_args(arguments)
    began, arms = datetime.now(UTC), tuple(options.arm or ARMS)
    phases, rows = plan.phases(options.scale), list[Row]()
    head = results.head("tests.bench.sglang", arguments, began)
    with tempfile.TemporaryDirectory(prefix="outrider-bench-") as folder:
        installed = install(Path(folder))
        for repeat in range(options.first, options.first + options.repeats):
            # The other way round each second time, so that a drift of the machine cancels.
            for arm in arms if repeat % 2 == 0 else arms[::-1]:
                simulation = plan.settings(options.engine, options.time_factor, repeat)
                fixed = arm == OUTRIDER and repeat < options.first + options.fixed_repeats
                found = asyncio.run(run(arm, installed, simulation, phases, _say, fixed=fixed))
                rows += [{"repeat": repeat, **row} for row in found]
                partial = {**head, "complete": False, "runs": rows}
                results.write(options.output, partial)
    shape = [{"name": phase.name, "loads": [load.name for load in phase.loads]} for phase in phases]
    sums = summary(rows, phases)
    results.write(
        options.output, {**head, "engine": options.engine, "phases": shape, "summary": sums, "runs": rows}
    )
    print(text(sums))


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
