"""``python -m tests.bench.sglang.record NAME RESULT...``: the record of Outrider and SGLang's own rules.

RESULT is the file of a run of all arms, or that of another record. The fixed K ran in at least one of them.
Several files have different repeats (``--first``), and code of one commit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from tests.bench.records.record import RAW, Record, Table, percent_spread
from tests.bench.sglang import plan
from tests.bench.sglang.engines import ARMS, EMA, OUTRIDER, THROUGHPUT_AWARE
from tests.bench.sglang.runs import SLICE_SECONDS
from tests.bench.sglang.summary import summary

WORDS = {OUTRIDER: "Outrider", EMA: "SGLang `ema`", THROUGHPUT_AWARE: "SGLang `throughput_aware`"}
DEPENDS = (
    "operator/outrider/tuning",
    "operator/lab/outrider_lab/rivals/throughput_aware.py",
    "engine_image/protocol/outrider_protocol",
    "engine_image/outrider_engine/control",
    "engine_image/outrider_engine/counting",
    "engine_image/outrider_sglang",
    "engine_image/testing/sglang_cpu",
    "engine_image/testing/twin/outrider_twin",
    "tests/bench/sglang/plan.py",
    "tests/bench/sglang/drive.py",
    "tests/bench/sglang/runs.py",
    "tests/bench/sglang/operator_loop.py",
    "tests/bench/sglang/rule.py",
    "tests/bench/sglang/engines.py",
)

Phases = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Sums of the bench, by phase and arm."""


def joined(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Several results as one, with the sums over all repeats.

    Raises:
        ValueError: two results have the same repeat, are of different code, or one run was interrupted.
    """
    repeats = [repeat for result in results for repeat in sorted({run["repeat"] for run in result["runs"]})]
    if len(set(repeats)) < len(repeats):
        raise ValueError(f"the results have the repeats {repeats}; each may have its own only, see --first")
    if len({result["commit"] for result in results}) > 1:
        raise ValueError("the results are of different commits")
    if not all(result.get("complete", True) for result in results):
        raise ValueError("a run was interrupted")
    runs = [run for result in results for run in result["runs"]]
    return {
        **results[0],
        "command": "; ".join(result["command"] for result in results),
        "started": [start for result in results for start in result.get("started", [result["date"]])],
        "runs": runs,
        "summary": summary(runs, plan.phases()),
    }


def tables(result: Mapping[str, Any]) -> list[Table]:
    """0: Outrider's lead by phase, the smallest over SGLang first; 1: tokens per second of engine time."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for one in result["summary"]:
        found.setdefault(one["phase"], {})[one["arm"]] = one
    order = sorted(found, key=lambda phase: min(mean(_leads(found[phase], arm)) for arm in ARMS[:2]))
    return [_lead_table(found, order), _rate_table(found, order)]


def _leads(arms: Mapping[str, Mapping[str, Any]], over: str) -> list[float]:
    """Of each repeat."""
    pairs = zip(arms[OUTRIDER]["tokens_per_second"], arms[over]["tokens_per_second"], strict=True)
    return [own / other - 1.0 for own, other in pairs]


def _lead_table(found: Phases, order: Sequence[str]) -> Table:
    columns = ["traffic", *(f"Outrider over {WORDS[arm]}, %" for arm in ARMS[:2]), "over the best fixed K, %"]
    rows = [
        [
            phase,
            *(percent_spread(_leads(found[phase], arm)) for arm in ARMS[:2]),
            percent_spread(found[phase][OUTRIDER]["gains"]),
        ]
        for phase in order
    ]
    return Table(columns=columns, rows=rows)


def _rate_table(found: Phases, order: Sequence[str]) -> Table:
    columns = ["traffic", *(f"{words}, tok/s" for words in WORDS.values()), "best fixed K"]
    rows = [
        [
            phase,
            *(_rates(found[phase][arm]["tokens_per_second"]) for arm in WORDS),
            " and ".join(dict.fromkeys(str(k) for k in found[phase][OUTRIDER]["best_fixed"])),
        ]
        for phase in order
    ]
    return Table(columns=columns, rows=rows)


def _rates(rates: Sequence[float]) -> str:
    return f"{mean(rates):.0f} [{min(rates):.0f}, {max(rates):.0f}]"


def record_of(result: Mapping[str, Any], name: str) -> Record:
    """The record of a result."""
    repeats = len({run["repeat"] for run in result["runs"]})
    return Record(
        name=name,
        date=result["date"][:10],
        commit=result["commit"],
        command=result["command"],
        shown="simulated: real SGLang 0.5.23 on a CPU, with the clock and the acceptance of a GPU",
        machine="two shared CPU cores; the figures do not depend on it",
        interval=f"the brackets are the smallest and largest of {repeats} runs, no confidence interval; the "
        f"benchmark started at {', '.join(start[:16].replace('T', ' ') for start in result['started'])} UTC",
        limits=f"One set of step times, doubled. Each fixed K ran for {SLICE_SECONDS:g} s per load. No GPU.",
        depends=DEPENDS,
        versions={"SGLang": "0.5.23"},
        script="python -m tests.bench.sglang.record",
        tables=tables(result),
        raw=f"{name}{RAW}",
    )


def main(arguments: Sequence[str]) -> None:
    """Write the record, and the joined results beside it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sglang.record", description=__doc__)
    parser.add_argument("name", help="such as 2026-12-01-sglang")
    parser.add_argument("results", type=Path, nargs="+", help="such as out/sglang.json")
    options = parser.parse_args(arguments)
    result = joined([json.loads(path.read_text(encoding="utf-8")) for path in options.results])
    record_of(result, options.name).write_with(result)


if __name__ == "__main__":
    main(sys.argv[1:])
