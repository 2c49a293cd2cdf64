"""``python -m tests.bench.relaunch_record NAME --overheads RESULT --relaunches RESULT``: one record of both.

The results are those of `tests.bench.tax` and `tests.bench.relaunch`, of one commit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import Any

from outrider.api.launch import NO_DRAFTER
from tests.bench.records.record import DEPLOYED, RAW, Record, Table, percent
from tests.bench.relaunch import BOUND_BY_ARITHMETIC, STRETCH_SECONDS, Scene

Result = Mapping[str, Any]

DEPENDS = (*DEPLOYED, "tests/bench/tax.py", "tests/bench/relaunch.py")
SCENES = {
    Scene.DRAFTER: f"`structuralOff: Allow`, an engine {BOUND_BY_ARITHMETIC['name']}",
    Scene.TABLE: "`actuation: Rollout`, an H100 without the plugin",
}


def tables(overheads: Result, relaunches: Result) -> list[Table]:
    """0: the operator's figure for each overhead; 1: tokens per second by launch."""
    return [_overhead_table(overheads), _relaunch_table(relaunches)]


def _overhead_table(result: Result) -> Table:
    columns = [
        "K=0 costs",
        "the operator's figure",
        "its own error",
        "from the first request until the canary was gone",
    ]
    by_given: dict[float, list[Mapping[str, Any]]] = {}
    for run in result["runs"]:
        by_given.setdefault(run["given"], []).append(run)
    rows = [
        [
            f"{percent(given)} %",
            ", ".join(_measured(run["said"]) for run in runs),
            ", ".join(_measured(run["deviation"]) for run in runs),
            ", ".join(f"{run['seconds']:.0f} s" for run in runs),
        ]
        for given, runs in sorted(by_given.items())
    ]
    return Table(columns=columns, rows=rows)


def _measured(ratio: float | None) -> str:
    return "none" if ratio is None else f"{percent(ratio)} %"


def _relaunch_table(result: Result) -> Table:
    """A row for each time that one launch served one load."""
    columns = ["scene", "streams", "launch", "last table", "from second", "tokens/s"]
    rows = [
        [
            SCENES[Scene(scene)],
            str(streams),
            " and ".join(map(_words, launches)) or "none ready",
            group[-1]["table"] or "",
            f"{group[0]['at']:.0f}",
            f"{_rate(group):.0f}",
        ]
        for scene, run in result["scenes"].items()
        for (streams, launches), group in _served(run["stretches"])
    ]
    return Table(columns=columns, rows=rows)


def _served(stretches: Sequence[Mapping[str, Any]]) -> list[tuple[tuple[int, Sequence[str]], list[Any]]]:
    found = groupby(stretches, lambda one: (one["streams"], one["launches"]))
    return [(of, list(group)) for of, group in found]


def _rate(group: Sequence[Mapping[str, Any]]) -> float:
    """Without the first stretch, in which the load or the launch changed, where there are more."""
    rates: list[float] = [one["tokens_per_second"] for one in group[1:] or group]
    return mean(rates)


def _words(launch: str) -> str:
    if launch == NO_DRAFTER:
        return "without a drafter"
    return f"`{launch}`" if launch else "as in the spec"


def record_of(overheads: Result, relaunches: Result, name: str) -> Record:
    """The record of these runs.

    Raises:
        ValueError: they are of two commits.
    """
    if overheads["commit"] != relaunches["commit"]:
        raise ValueError(
            f"results of {overheads['commit']} and {relaunches['commit']}: run both at one commit"
        )
    failed = sum(run["failed"] for run in overheads["runs"])
    failed += sum(one["failed"] for run in relaunches["scenes"].values() for one in run["stretches"])
    return Record(
        name=name,
        date=overheads["date"][:10],
        commit=overheads["commit"],
        command=f"{overheads['command']}; {relaunches['command']}",
        shown="simulated: real vLLM whose executor waits for the step times of a table; operator, "
        "Prometheus, Service and clients in a kind cluster",
        machine="two shared CPU cores with AVX-512",
        interval="none: each run is in the table",
        limits=f"Each rate is a mean over stretches of {STRETCH_SECONDS:.0f} s. {failed} requests failed.",
        depends=DEPENDS,
        script="python -m tests.bench.relaunch_record",
        tables=tables(overheads, relaunches),
        figures={"failed requests": failed},
        raw=f"{name}{RAW}",
    )


def _result(file: str) -> Result:
    found: Result = json.loads(Path(file).read_text(encoding="utf-8"))
    return found


def main(arguments: Sequence[str]) -> None:
    """Write the record, and both results beside it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.relaunch_record", description=__doc__)
    parser.add_argument("name", help="such as 2026-12-01-canary-and-relaunches")
    parser.add_argument("--overheads", type=_result, required=True, help="such as out/bench/tax.json")
    parser.add_argument("--relaunches", type=_result, required=True, help="such as out/bench/relaunch.json")
    options = parser.parse_args(arguments)
    both = {"overheads": options.overheads, "relaunches": options.relaunches}
    record_of(**both, name=options.name).write_with(both)


if __name__ == "__main__":
    main(sys.argv[1:])
