"""On what a step spends more with K=0: ``python -m tests.bench.k0.parts``, on a quiet machine.

The engines of `tests.bench.k0` with timers in their cores (`tests.bench.k0.timers`): two stock ones without
a drafter, and K=0 with a drafter that is left out. For each part of a step its milliseconds, without the
parts that it calls, and the difference to the mean of both stock engines in percent of their step: so the
parts add up. The second stock engine against the first shows what is chance. Steps with prompts are a row of
their own, spread over the others. The parts include the cost of the timers, which is also shown separately.

Also the memory of each core: what is resident, and the blocks of its KV cache. The result, with the command
that made it, goes to out/bench/k0/METHOD-parts.json.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tests.bench.k0.arms import AGAIN, ARMS, BOTH, SKIP, STOCK, SYNC
from tests.bench.k0.loads import REPORTS, Bench, Load, Result, Runs, over_loads, parser
from tests.bench.k0.runs import CORE, measure
from tests.bench.k0.statistics import relative_cost
from tests.bench.k0.sums import ROWS, STEP, TOKEN, install, read, with_timers
from tests.bench.results import head, write
from tests.contract.engine import Engine
from tests.contract.measuring import scrape, wait_until
from tests.contract.processes import pids

Milliseconds = Mapping[str, float]
"""Per step, by row."""


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One load on one engine. timers: milliseconds per step that were the timers' own."""

    steps: int
    milliseconds: Milliseconds
    timers: float
    memory: Mapping[str, float]


def measure_parts(
    files: Mapping[str, Path], engines: Mapping[str, Engine], load: Load, arm: str, asked: str
) -> TimedRun:
    """One load, timed. files: where each engine writes its sums."""
    engine, file = engines[arm], files[arm]
    before = read(file)
    run = measure(engine, streams=load.streams, tokens=load.tokens, name=asked)
    # The last request to come decodes all its tokens but the first in steps that only decode.
    wait_until(lambda: (read(file) - before).steps >= load.tokens - 1, "the core did not come to rest")
    spent = read(file) - before
    found = {**spent.milliseconds(), TOKEN: run.token_milliseconds}
    return TimedRun(spent.steps, found, spent.timers_milliseconds(), memory(engine))


def conclude(runs: Runs[TimedRun], starts: int) -> Result:
    """What all pairs of one load say."""
    return {
        "arms": {name: summary(found) for name, found in runs.items()},
        "differences": differences(
            {name: [run.milliseconds for run in found] for name, found in runs.items()}, starts=starts
        ),
    }


def differences(
    runs: Mapping[str, Sequence[Milliseconds]], *, starts: int = 1
) -> dict[str, dict[str, dict[str, object]]]:
    """By both that are compared and by row: what one spends more, in percent of the other's step."""
    both = [
        {row: statistics.fmean((one[row], other[row])) for row in one}
        for one, other in zip(runs[STOCK], runs[AGAIN], strict=True)
    ]
    found = {**runs, BOTH: both}
    return {
        f"{slower} against {faster}": {
            row: _difference(found[slower], found[faster], row, starts) for row in ROWS
        }
        for slower, faster in ((AGAIN, STOCK), (SYNC, BOTH), (SKIP, BOTH))
        if slower in found
    }


def _difference(
    slower: Sequence[Milliseconds], faster: Sequence[Milliseconds], row: str, starts: int
) -> dict[str, object]:
    """As if two steps differed in this row alone."""
    steps = [run[STEP] for run in faster]
    more = [one[row] - other[row] for one, other in zip(slower, faster, strict=True)]
    return relative_cost(
        [step + extra for step, extra in zip(steps, more, strict=True)], steps, starts=starts
    )


def summary(runs: Sequence[TimedRun]) -> dict[str, object]:
    """Medians of one arm."""
    return {
        "steps": sum(run.steps for run in runs),
        "milliseconds_per_step": {
            row: round(statistics.median(run.milliseconds[row] for run in runs), 4) for row in ROWS
        },
        "timers_milliseconds_per_step": round(statistics.median(run.timers for run in runs), 4),
        "memory": {row: statistics.median(run.memory[row] for run in runs) for row in runs[0].memory},
    }


def memory(engine: Engine) -> dict[str, float]:
    """What is resident of the engine's cores, and the blocks of its KV cache."""
    status = [Path(f"/proc/{pid}/status").read_text() for pid in pids(engine, CORE)]
    kilobytes = [int(text.partition("VmRSS:")[2].split()[0]) for text in status]
    infos = [dict(labels) for name, labels in scrape(engine).values if name == "vllm:cache_config_info"]
    return {
        "resident_mib": round(sum(kilobytes) / 1024, 1),
        "kv_cache_blocks": sum(int(info["num_gpu_blocks"]) for info in infos),
    }


def table(found: Result) -> str:
    """One load: milliseconds of each arm, and the differences with their intervals."""
    arms, compared = found["arms"], found["differences"]
    assert isinstance(arms, dict)
    assert isinstance(compared, dict)
    widths = [max(map(len, (*ROWS, "resident MiB"))), *(max(14, len(name)) for name in arms)]
    heads = [f"{name.partition(' against ')[0]}, % more" for name in compared]

    def line(first: str, *cells: str) -> str:
        return "  ".join(
            [first.ljust(widths[0]), *map(str.rjust, cells, [*widths[1:], *map(len, heads)])]
        ).rstrip()

    lines = [f"Streams: {found['streams']}. Milliseconds per step", line("", *arms, *heads)]
    for row in ROWS:
        spent = [f"{arm['milliseconds_per_step'][row]:.3f}" for arm in arms.values()]
        lines.append(line(row, *spent, *(_cell(rows[row]) for rows in compared.values())))
    lines.append(line("timers", *(f"{arm['timers_milliseconds_per_step']:.3f}" for arm in arms.values())))
    for name, unit in (("resident_mib", "resident MiB"), ("kv_cache_blocks", "KV cache blocks")):
        lines.append(line(unit, *(str(arm["memory"][name]) for arm in arms.values())))
    return "\n".join(lines)


def _cell(difference: Mapping[str, object]) -> str:
    interval = difference["interval_95_percent"]
    assert isinstance(interval, list)
    low, high = interval
    return f"{difference['median_percent']:+.2f} ({low:+.2f} to {high:+.2f})"


def main(arguments: Sequence[str]) -> None:
    """Compare, report."""
    program = parser("python -m tests.bench.k0.parts", __doc__)
    program.add_argument(
        "--sync", action="store_true", help="K=0 with a drafter that follows every step, too"
    )
    given, started = program.parse_args(arguments), datetime.now(UTC)
    chosen = {arm: launch for arm, launch in ARMS[given.method].items() if arm != SYNC or given.sync}
    with tempfile.TemporaryDirectory() as name:
        files = {arm: Path(name) / f"{index}.json" for index, arm in enumerate(chosen)}
        timed = {arm: with_timers(arm, launch, files[arm]) for arm, launch in chosen.items()}
        result = over_loads(
            given, timed, Bench(partial(measure_parts, files), conclude, table), install=install
        )
    write(
        REPORTS / f"{given.method}-parts.json", {**head("tests.bench.k0.parts", arguments, started), **result}
    )


if __name__ == "__main__":
    main(sys.argv[1:])
