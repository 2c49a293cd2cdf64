"""``python -m tests.bench.tuning.record KIND RESULT NAME``: the record and its tables, of a result file.

KIND is `alternating`, `verification` or `on-tables`. The result file itself is kept beside the record.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from tests.bench.records.record import RAW, TUNER, Record, Table, percent, percent_range, percent_spread
from tests.bench.tuning import alternating, verification

Result = Mapping[str, Any]

BOTH_LOOPS, SCHEDULE_ONLY = "Outrider, both loops", "Outrider, schedule only"
ALTERNATING = {
    "outrider": BOTH_LOOPS,
    "outrider-schedule": SCHEDULE_ONLY,
    "sglang": "`sglang`: SGLang's adaptive mode",
    "acceptance": "`acceptance`: thresholds",
    "turbospec": "`turbospec`",
    "oracle": "oracle policy",
}
ABOVE, ABOVE_WITH_PROFILE = "outrider-adaptive", "outrider-adaptive-profile"
VERIFYING = {
    verification.BEST_ADAPTIVE: "AV, best K afterwards",
    ABOVE: "Outrider above AV",
    ABOVE_WITH_PROFILE: "Outrider above AV, with a startup profile",
    "oracle": "oracle policy, without AV",
    "adaptive": "AV, largest K",
    "outrider": "Outrider",
    "ucb-specstop": "UCB-SpecStop",
    "turbospec": "TurboSpec",
    verification.NO_DRAFTER: "no drafter",
}
COLUMNS = {
    "outrider": "Outrider",
    "adaptive": "AV, largest K",
    verification.BEST_ADAPTIVE: "AV, best K afterwards",
    ABOVE: "Outrider above AV",
    ABOVE_WITH_PROFILE: "the same with a startup profile",
    "sglang-throughput": "SGLang `throughput_aware`",
    "ucb-specstop": "UCB-SpecStop",
    verification.NO_DRAFTER: "no drafter",
}
TEXTS = {"chat": "one text", "turns": "turns of 20 s", "mixed": "two texts at once"}
ON_TABLES = {
    "outrider-map": "Outrider with a startup profile",
    "outrider": "Outrider without",
    "ucb-specstop": "UCB-SpecStop",
    "sglang-throughput": "SGLang `throughput_aware`",
    "sglang": "SGLang's adaptive mode",
    "turbospec": "TurboSpec",
}


def alternating_tables(result: Result) -> list[Table]:
    """Each policy over all cells; both kinds of engines by text and length of the turns."""
    found = result["summary"]["main"]
    policies = [
        [words, percent(found[name]["mean"]), percent(found[name]["worst_cell"])]
        for name, words in ALTERNATING.items()
    ]
    rows = [
        [f"{first[0]:g} and {second[0]:g}, {words}"]
        + [_by_streams(result["runs"], contrast, turn, name) for turn in alternating.TURNS]
        for contrast, (first, second) in alternating.CONTRASTS.items()
        for name, words in (("outrider", BOTH_LOOPS), ("outrider-schedule", SCHEDULE_ONLY))
    ]
    turns = [f"{turn:g} s, %" for turn in alternating.TURNS]
    return [
        Table(columns=["policy", "mean of 36 cells, %", "worst cell, %"], rows=policies),
        Table(columns=["first tokens accepted", f"turns of {turns[0]}", *turns[1:]], rows=rows),
    ]


def _by_streams(runs: Sequence[Mapping[str, Any]], contrast: str, turn: float, policy: str) -> str:
    cells = [
        mean(
            run["gains"][policy]
            for run in runs
            if (run["contrast"], run["turn"], run["streams"], run["group"])
            == (contrast, turn, streams, "main")
        )
        for streams in alternating.STREAMS
    ]
    return percent_spread(cells)


def verification_tables(result: Result) -> list[Table]:
    """By engine and text, the largest lead of adaptive verification first; all cells, best policy first."""
    gains = result["gains"]
    of = gains["engine and text"]
    names = sorted(of, key=lambda name: of[name]["outrider"][0] - of[name]["adaptive"][0])
    rows = [[_words(name), *(_gain(of[name], policy) for policy in COLUMNS)] for name in names]
    everywhere = gains["all"][""]
    best = sorted(VERIFYING, key=lambda policy: -everywhere[policy][0])
    return [
        Table(columns=["verifying; drafter; text", *COLUMNS.values()], rows=rows),
        Table(
            columns=["all 36 cells", "gain over the best fixed K, %"],
            rows=[[VERIFYING[policy], percent_range(*everywhere[policy])] for policy in best],
        ),
    ]


def _words(name: str) -> str:
    engine, text = name.split("; ")
    return f"{engine.removeprefix('verifying is ')}; {TEXTS[text]}"


def _gain(found: Mapping[str, Sequence[float]], policy: str) -> str:
    return percent_range(*found[policy]) if policy in found else "refused"


def on_tables_tables(result: Result) -> list[Table]:
    """Regret of each policy on published tables."""
    found = result["regrets"]["stationary"]
    rows = [[words, percent_range(*found[policy])] for policy, words in ON_TABLES.items()]
    return [Table(columns=["policy", "mean regret of whole phases, %"], rows=rows)]


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the benchmarks whose records are made here."""

    tables: Callable[[Result], list[Table]]
    shown: str
    interval: str
    limits: str
    module: str


SINGLE_RUNS = "the brackets are the smallest and largest of single runs, no confidence interval"
KINDS = {
    "alternating": Kind(
        alternating_tables,
        "simulated: the fast loop and the tuner against formulas",
        "the brackets are the smallest and largest of three batch sizes, no confidence interval",
        "formulas, no engine.",
        "tests/bench/tuning/alternating.py",
    ),
    "verification": Kind(
        verification_tables,
        "simulated: rules of engines by their sources, and the tuner, against formulas",
        SINGLE_RUNS,
        "formulas, no engine; the drafter is a model.",
        "tests/bench/tuning/verification.py",
    ),
    "on-tables": Kind(
        on_tables_tables,
        "simulated: rules of engines by their sources, and the tuner, on published throughput tables",
        SINGLE_RUNS,
        "published tables under constant load, no engine.",
        "tests/bench/tuning/verification.py",
    ),
}
NUMBERS = ("No", "One", "Two", "Three", "Four", "Five")


def record_of(kind: Kind, result: Result, name: str) -> Record:
    """The record of a result."""
    seeds = len({str(run["seed"]) for run in (*result["runs"], *result.get("others", ()))})
    return Record(
        name=name,
        date=result["date"][:10],
        commit=result["commit"],
        command=result["command"],
        shown=kind.shown,
        machine="two shared CPU cores; the figures do not depend on it",
        interval=kind.interval,
        limits=f"{NUMBERS[seeds]} seed{'s' if seeds != 1 else ''}; {kind.limits}",
        depends=(*TUNER, kind.module),
        script="python -m tests.bench.tuning.record",
        tables=kind.tables(result),
        figures={claim: round(value, 4) for claim, value in result.get("claims", {}).items()},
        raw=f"{name}{RAW}",
    )


def main(arguments: Sequence[str]) -> None:
    """Write the record, and the result beside it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tuning.record", description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("result", type=Path)
    parser.add_argument("name", help="such as 2026-12-01-alternating-text")
    options = parser.parse_args(arguments)
    result = json.loads(options.result.read_text(encoding="utf-8"))
    record_of(KINDS[options.kind], result, options.name).write_with(result)


if __name__ == "__main__":
    main(sys.argv[1:])
