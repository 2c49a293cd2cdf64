"""``python -m tests.bench.sglang.record RESULT NAME``: the record of Outrider and SGLang's own rules.

RESULT is the file of a run of all arms, of which the fixed K ran at least once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from tests.bench.records.record import RAW, Record, Table, percent_spread, write_of_result
from tests.bench.sglang.engines import ARMS, EMA, OUTRIDER, THROUGHPUT_AWARE
from tests.bench.sglang.runs import SLICE_SECONDS

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
        interval=f"the brackets are the smallest and largest of {repeats} runs, no confidence interval",
        limits=f"One set of step times, doubled. Each fixed K ran for {SLICE_SECONDS:g} s per load. No GPU.",
        depends=DEPENDS,
        versions={"SGLang": "0.5.23"},
        script="python -m tests.bench.sglang.record",
        tables=tables(result),
        raw=f"{name}{RAW}",
    )


def main(arguments: Sequence[str]) -> None:
    """Write the record, and the result beside it."""
    write_of_result(arguments, module="tests.bench.sglang.record", about=__doc__, record_of=record_of)


if __name__ == "__main__":
    main(sys.argv[1:])
