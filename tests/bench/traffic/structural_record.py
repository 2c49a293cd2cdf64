"""``python -m tests.bench.traffic.structural_record RESULT NAME``: the record and its tables, of a result."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from outrider.api.tuning import StructuralOff
from tests.bench.records.record import RAW, TUNER, Record, Table, percent, percent_spread
from tests.bench.traffic.engines import HEADLINE_OVERHEAD
from tests.bench.traffic.record import ENGINES
from tests.bench.traffic.structural import KINDS

Rows = Sequence[Mapping[str, Any]]

DEPENDS = (
    *TUNER,
    "tests/bench/held_out.py",
    "tests/bench/traffic/engines.py",
    "tests/bench/traffic/kinds.py",
    "tests/bench/traffic/launches.py",
    "tests/bench/traffic/structural.py",
)
LOSS, COVERAGE, WIDTH = 0.02, 0.95, 0.06
"""Goals: the most below a launch without a drafter; the least coverage, and the most width after a canary."""


def tables(runs: Rows) -> list[Table]:
    """Goals; gains by kind and engine, worst first; what a canary measured; gains where K=0 costs less."""
    headline = _at(runs, HEADLINE_OVERHEAD)
    others = [overhead for overhead in _overheads(runs) if overhead != HEADLINE_OVERHEAD]
    costs = [f"K=0 costs {percent(overhead)} %" for overhead in _overheads(runs)]
    by_overhead = [goals(_at(runs, overhead)) for overhead in _overheads(runs)]
    return [
        Table(
            columns=["goal", "limit", *costs],
            rows=[[*cells[0][:2], *(cell[2] for cell in cells)] for cells in zip(*by_overhead, strict=True)],
        ),
        Table(
            columns=[
                "traffic",
                "engine",
                "gain over no drafter, %",
                "starts counted as spent, %",
                "after the relaunch, %",
                "relaunches",
            ],
            rows=_by_gain(headline),
        ),
        Table(
            columns=[
                "traffic",
                "engine",
                "K=0 costs, measured (true: 10 %)",
                "intervals with the truth, %",
                "their width, %",
            ],
            rows=_by_coverage(headline),
        ),
        Table(
            columns=["K=0 costs, %", "traffic", "gain over no drafter, %", "measured, %", "relaunches"],
            rows=[row for overhead in others for row in _by_kind(_at(runs, overhead), overhead)],
        ),
    ]


def _overheads(runs: Rows) -> list[float]:
    return sorted({run["true_overhead"] for run in runs})


def _at(runs: Rows, overhead: float) -> Rows:
    return [run for run in runs if run["true_overhead"] == overhead]


def goals(runs: Rows) -> list[list[str]]:
    """A row for each goal, of the runs that it is about. Means weigh each report once."""
    relaunched = [run["after"] for run in runs if run["after"] is not None]
    reported = [run for run in _with_canary(runs) if run["coverage"] is not None]
    allowed = [run["gain"] for run in runs if KINDS[run["kind"]].structural is StructuralOff.ALLOW]
    coverage, width = _of_reports(reported, "coverage"), _of_reports(reported, "width")
    return [
        [
            "below no drafter, after a relaunch",
            "at most 2 %",
            _verdict(-min(relaunched), LOSS) if relaunched else "no relaunch",
        ],
        [
            "below no drafter, whole runs that may relaunch",
            "at most 2 %",
            _verdict(-min(allowed), LOSS) if allowed else "",
        ],
        [
            "reports after a canary whose interval has the truth",
            "at least 95 %",
            "" if coverage is None else _verdict(coverage, COVERAGE, least=True),
        ],
        ["their mean width", "at most 6 %", "" if width is None else _verdict(width, WIDTH)],
    ]


def _of_reports(runs: Rows, name: str) -> float | None:
    """Mean over reports; None without any."""
    reports = sum(run["reports"] for run in runs)
    return sum(run[name] * run["reports"] for run in runs) / reports if reports else None


def _verdict(found: float, limit: float, *, least: bool = False) -> str:
    missed = found < limit if least else found > limit
    return f"{'**missed**: ' if missed else ''}{percent(found)} %"


def _with_canary(runs: Rows) -> list[Mapping[str, Any]]:
    return [run for run in runs if run["canary_seconds"] > 0]


def _by_gain(runs: Rows) -> list[list[str]]:
    cells = sorted(_cells(runs), key=lambda cell: mean(run["gain"] for run in cell))
    return [
        [
            *_names(cell),
            percent_spread(run["gain"] for run in cell),
            percent_spread(run["with_starts"] for run in cell),
            percent_spread(run["after"] for run in cell if run["after"] is not None),
            _count(run["relaunches"] for run in cell),
        ]
        for cell in cells
    ]


def _by_coverage(runs: Rows) -> list[list[str]]:
    cells = [cell for cell in _cells(_with_canary(runs)) if any(run["overhead"] is not None for run in cell)]

    def covered(cell: Rows) -> float:
        return mean([float(run["coverage"]) for run in cell if run["coverage"] is not None] or [1.0])

    return [
        [
            *_names(cell),
            percent_spread(run["overhead"] for run in cell if run["overhead"] is not None),
            percent_spread(run["coverage"] for run in cell if run["coverage"] is not None),
            percent_spread(run["width"] for run in cell if run["width"] is not None),
        ]
        for cell in sorted(cells, key=covered)
    ]


def _by_kind(runs: Rows, overhead: float) -> list[list[str]]:
    kinds = [[run for run in runs if run["kind"] == kind] for kind in dict.fromkeys(r["kind"] for r in runs)]
    return [
        [
            percent(overhead),
            cell[0]["kind"],
            percent_spread(run["gain"] for run in cell),
            percent_spread(run["overhead"] for run in cell if run["overhead"] is not None),
            _count(run["relaunches"] for run in cell),
        ]
        for cell in sorted(kinds, key=lambda cell: min(run["gain"] for run in cell))
    ]


def _cells(runs: Rows) -> list[Rows]:
    names = dict.fromkeys((run["kind"], run["engine"]) for run in runs)
    return [[run for run in runs if (run["kind"], run["engine"]) == name] for name in names]


def _names(cell: Rows) -> tuple[str, str]:
    return cell[0]["kind"], ENGINES[cell[0]["engine"]]


def _count(values: Iterable[int]) -> str:
    found = sorted(values)
    return " to ".join(dict.fromkeys((str(found[0]), str(found[-1]))))


def record_of(result: Mapping[str, Any], name: str) -> Record:
    """The record of a result."""
    runs: Rows = result["runs"]
    repetitions = len({run["number"] for run in runs})
    return Record(
        name=name,
        date=result["date"][:10],
        commit=result["commit"],
        command=result["command"],
        shown="simulated: the tuner's own decisions about launches, formulas and published tables as engines",
        machine="two shared CPU cores; the figures do not depend on it",
        interval=f"the brackets are the smallest and largest of {repetitions} repetitions with other draws",
        limits="No engine ran. K=0 costs 0, 3 or 10 % of a step. A pod starts in 228 s. Runs take 40 to 60 "
        "minutes.",
        depends=DEPENDS,
        script="python -m tests.bench.traffic.structural_record",
        tables=tables(runs),
        raw=f"{name}{RAW}",
    )


def main(arguments: Sequence[str]) -> None:
    """Write the record, and the result beside it."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.traffic.structural_record", description=__doc__
    )
    parser.add_argument("result", type=Path)
    parser.add_argument("name", help="such as 2026-12-01-canaries")
    options = parser.parse_args(arguments)
    result = json.loads(options.result.read_text(encoding="utf-8"))
    record_of(result, options.name).write_with(result)


if __name__ == "__main__":
    main(sys.argv[1:])
