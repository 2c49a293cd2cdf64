"""``python -m tests.bench.traffic``: rules of today by kind of traffic, on engines with an overhead at K=0.

Traces, texts and the engines of the report follow from the commit's hash; `--commit` repeats another run.
Simulated: the tuner, the fast loop, scrapes and engines of formulas and tables; no cluster, no real engine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from tests.bench import held_out, results
from tests.bench.traffic.engines import HEADLINE_OVERHEAD, OVERHEADS, REPORT, TUNING
from tests.bench.traffic.kinds import KINDS
from tests.bench.traffic.runs import ORACLE, OWN, RIVALS, VERIFYING, Job, Row, run
from tests.bench.traffic.summary import GAIN, WARM, Goal, gains, goals, rules

REPETITIONS = 3


def jobs(commit: str, engines: Sequence[str], kinds: Sequence[str], numbers: int) -> Iterator[Job]:
    """All rules at the headline's overhead; at the others, what the overhead itself changes."""
    everyone = (*OWN, *RIVALS, *VERIFYING, ORACLE)
    for number, overhead, kind, engine in product(range(numbers), reversed(OVERHEADS), kinds, engines):
        yield Job(commit, engine, kind, overhead, number, everyone if overhead == HEADLINE_OVERHEAD else OWN)


def execute(todo: Sequence[Job], journal: Path, processes: int) -> list[Row]:
    """Rows of all jobs. Those of an interrupted run of the same commit come from its journal."""
    journal.parent.mkdir(parents=True, exist_ok=True)
    done = {entry["job"]: entry["row"] for entry in _entries(journal)}
    missing = [job for job in todo if repr(job) not in done]
    with journal.open("a", encoding="utf-8") as file, ProcessPoolExecutor(processes) as pool:
        futures = {pool.submit(run, job): job for job in missing}
        for count, future in enumerate(as_completed(futures), start=1):
            entry = {"job": repr(futures[future]), "row": future.result()}
            done[entry["job"]] = entry["row"]
            file.write(json.dumps(entry) + "\n")
            file.flush()
            if count % 20 == 0 or count == len(missing):
                print(f"{count} of {len(missing)} runs", flush=True)
    return [done[repr(job)] for job in todo]


def _entries(journal: Path) -> Iterator[Any]:
    if journal.exists():
        for line in journal.read_text(encoding="utf-8").splitlines():
            # An interruption leaves half a line.
            with suppress(ValueError):
                yield json.loads(line)


def main(arguments: Sequence[str]) -> None:
    """Run, print a summary, and write all of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.traffic", description=__doc__)
    parser.add_argument("--commit", help="whose hash the draws follow from; default: the working tree's")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--engine", action="append", choices=(*TUNING, *REPORT))
    parser.add_argument("--kind", action="append", choices=tuple(KINDS))
    parser.add_argument("--output", type=Path, default=Path("out/bench/traffic.json"))
    options = parser.parse_args(arguments)
    commit = _commit(parser, options.commit)
    engines, kinds = options.engine or (*TUNING, *REPORT), options.kind or tuple(KINDS)
    began = datetime.now(UTC)
    print(f"draws of {commit}\ntuning: {', '.join(TUNING)}\nreport alone: {', '.join(REPORT)}", flush=True)
    todo = list(jobs(commit, engines, kinds, options.repetitions))
    rows = execute(todo, options.output.with_suffix(".rows.jsonl"), options.jobs)
    headline = [row for row in rows if row["overhead"] == HEADLINE_OVERHEAD]
    for rule in rules(headline)[:-1]:
        cold, warm = gains(headline, rule), gains(headline, rule, WARM)
        print(f"{rule:30s} {cold.mean:+7.1%} [{cold.low:+.1%}, {cold.high:+.1%}] {warm.mean:+7.1%}")
    found = {GAIN: goals(rows, GAIN), WARM: goals(rows, WARM)}
    for figure, goal in ((figure, goal) for figure, each in found.items() for goal in each):
        print(f"{figure} {'met   ' if goal.met else 'missed'} {goal.name}, {goal.limit}: {goal.words}")
    head = results.head("tests.bench.traffic", arguments, began)
    split = {"tuning": TUNING, "report": REPORT, "draws_of": commit}
    results.write(options.output, {**head, **split, "goals": _plain(found), "runs": rows})


def _plain(found: Mapping[str, Sequence[Goal]]) -> dict[str, object]:
    return {figure: [asdict(goal) for goal in each] for figure, each in found.items()}


def _commit(parser: argparse.ArgumentParser, given: str | None) -> str:
    """All 40 digits. The result of a tree that differs from its commit says `-dirty`."""
    try:
        return held_out.full_hash(given or results.commit().removesuffix("-dirty"))
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
