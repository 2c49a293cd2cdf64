"""``python -m tests.bench.demo_record NAME COMMIT:RESULT...``: the record of runs of the demo.

RESULT is the `result.json` of a run of COMMIT. What the tables need of each is kept beside the record. The
phases shown are those of the last run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.demo.beside_record import ROWS, published_cell
from examples.demo.phases import TRACE, Arm
from examples.demo.result import Result
from examples.demo.spread import Compared, compared
from examples.kit.loads import Load
from outrider.bench.verdict import Interval
from tests.bench.records.record import RAW, Record, Table

OVER_ZERO, OVER_LARGEST, LOWEST = ROWS
NUMBERS = {1: "one run", 2: "two runs", 3: "three runs", 4: "four runs", 5: "five runs"}
_LEFT_OUT: Mapping[str, object] = {
    "decisions": [],
    "statuses": [],
    "acceptance": [],
    "k_in_use": [],
    "simulated": None,
}
"""Parts of a result that no table needs."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the demo that passed."""

    commit: str
    result: Result

    @property
    def date(self) -> str:
        """Of its start."""
        return self.result.conditions.started[:10]

    @property
    def phases(self) -> list[Compared]:
        """Its phases, by arm."""
        return compared(self.result)

    def gain(self, row: str) -> Interval:
        """One of the three gains, as a ratio.

        Raises:
            ValueError: the run was too short for it.
        """
        found = ROWS[row](self.phases)
        if found is None:
            raise ValueError(f"run of {self.commit}: too few intervals for the gain {row}")
        return found


def tables(runs: Sequence[Run]) -> list[Table]:
    """A row of each run; the phases of the last one; README's rows."""
    largest = runs[-1].result.conditions.largest_k
    every = [
        [
            f"{run.date}, {run.commit}",
            _gain(run.gain(OVER_ZERO)),
            _gain(run.gain(OVER_LARGEST)),
            f"{100 * run.gain(LOWEST).value:.0f} %",
        ]
        for run in runs
    ]
    phases = [
        [_words(load), *(_rate(phase.rate(arm)) for arm in (Arm.NO_DRAFTS, Arm.LONGEST_DRAFTS, Arm.OUTRIDER))]
        for load, phase in zip(TRACE, runs[-1].phases, strict=True)
    ]
    ranges = [[row, published_cell(*_ends(row, runs))] for row in ROWS]
    return [
        Table(
            columns=[
                "run",
                "gain over fixed K=0",
                f"gain over fixed K={largest}",
                "lowest phase, against the better fixed K",
            ],
            rows=every,
        ),
        Table(
            columns=[
                f"phase of the run {runs[-1].commit}, tokens/s",
                "K=0",
                f"K={largest}",
                "Outrider",
            ],
            rows=phases,
        ),
        Table(columns=["Outrider in the demo, on a CPU", f"gain, {NUMBERS[len(runs)]}"], rows=ranges),
    ]


def _gain(found: Interval) -> str:
    value, low, high = (f"{100 * (part - 1):.0f}" for part in (found.value, found.low, found.high))
    return f"{value} % [{low}, {high}]"


def _rate(found: Interval | None) -> str:
    return "" if found is None else f"{found.value:.0f}"


def _words(load: Load) -> str:
    return f"{load.prompts.words}, {load.streams} stream{'s' if load.streams > 1 else ''}"


def _ends(row: str, runs: Sequence[Run]) -> tuple[float, float]:
    found = [run.gain(row).value for run in runs]
    return min(found), max(found)


def record_of(runs: Sequence[Run], name: str) -> Record:
    """The record of these runs."""
    figures = {
        f"{row}, {end}": round(ratio, 4)
        for row in ROWS
        for end, ratio in zip(("lowest", "highest"), _ends(row, runs), strict=True)
    }
    conditions = runs[-1].result.conditions
    return Record(
        name=name,
        date=runs[-1].date,
        commit=runs[-1].commit,
        command="make demo",
        shown=f"CPU: real vLLM {conditions.engine_version}, the tiny models of the demo, in a kind cluster",
        machine="two shared CPU cores with AVX-512",
        interval="95 % over slices inside one run; runs differ by several times as much, see the rows",
        limits="It shows that K moves live, and is not a benchmark. The model is tiny, the CPU is shared, "
        "and the drafter was trained on code only.",
        depends=(
            "operator/outrider/tuning",
            "operator/outrider/performance",
            "operator/outrider/controller/tune",
            "engine_image/protocol/outrider_protocol",
        ),
        versions={"kubernetes": conditions.kubernetes_version, "vllm": conditions.engine_version},
        script="python -m tests.bench.demo_record",
        tables=tables(runs),
        figures=figures,
        raw=f"{name}{RAW}",
    )


def kept(run: Run) -> dict[str, object]:
    """A run in JSON, with what the tables need."""
    lean = run.result.model_copy(update=_LEFT_OUT)
    return {"commit": run.commit, "result": lean.model_dump(mode="json")}


def _run(text: str) -> Run:
    commit, _, file = text.partition(":")
    result = Result.model_validate_json(Path(file).read_text(encoding="utf-8"))
    if not result.passed:
        raise argparse.ArgumentTypeError(f"{file}: the run failed: {result.failures}")
    return Run(commit, result)


def main(arguments: Sequence[str]) -> None:
    """Write the record, and the runs beside it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.demo_record", description=__doc__)
    parser.add_argument("name", help="such as 2026-12-01-demo")
    parser.add_argument("runs", type=_run, nargs="+", help="such as 1a2b3c4:out/demo/result.json")
    options = parser.parse_args(arguments)
    record_of(options.runs, options.name).write_with({"runs": [kept(run) for run in options.runs]})


if __name__ == "__main__":
    main(sys.argv[1:])
