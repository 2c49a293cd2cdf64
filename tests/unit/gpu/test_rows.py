"""The rows of the coverage page that a check fills."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider_protocol.methods import Method
from tests.gpu.models import REAL, make
from tests.gpu.rows import ROWS, Launched, coverage_rows, sizes
from tests.gpu.verdicts import Verdict

COVERAGE = Path(__file__).parents[3] / "docs" / "coverage.md"
H100 = "NVIDIA H100 80GB HBM3, 81559 MiB, 570.86"
STATE = {
    "runner": "V2",
    "liveTuning": {"possible": True, "reason": None},
    "cudaGraphs": "FULL_AND_PIECEWISE",
    "capturedK": [0, 1, 2, 3, 5],
    "maxNumSeqs": 1024,
    "engineVersion": "0.33.0",
    "pluginVersion": "0.1.0",
}


@pytest.fixture
def launched(tmp_path: Path) -> Launched:
    pair = make(Method.EAGLE3, tmp_path, REAL)
    weights = sum(sizes(Method.EAGLE3, pair)) / 2**30
    log = {
        "scheduler": "AsyncScheduler",
        "graph_gib": 0.7,
        "graph_seconds": 11.0,
        "loaded_gib": 1.01 * weights,
    }
    return Launched({"state": STATE, "log": log}, {}, (0, 1, 2, 3, 5), Method.EAGLE3, pair, H100)


def verdicts(launched: Launched) -> list[Verdict]:
    return [check.verdict for check in coverage_rows(launched)]


def changed(launched: Launched, **state: Any) -> Launched:
    return replace(launched, start={**launched.start, "state": {**STATE, **state}})


def logged(launched: Launched, **log: Any) -> Launched:
    return replace(launched, start={**launched.start, "log": {**launched.log, **log}})


def test_every_row_is_on_the_coverage_page() -> None:
    topics = [
        line.split("|")[1].strip() for line in COVERAGE.read_text().splitlines() if line.startswith("| ")
    ]
    assert set(ROWS) <= set(topics)


def test_every_row_has_one_check_that_begins_with_its_words(launched: Launched) -> None:
    names = [check.name for check in coverage_rows(launched)]
    assert all(name.startswith(row) for name, row in zip(names, ROWS, strict=True))
    assert verdicts(launched) == [Verdict.MET] * len(ROWS)


def test_synchronous_scheduling_does_not_show_the_first_row(launched: Launched) -> None:
    assert verdicts(logged(launched, scheduler="Scheduler"))[0] is Verdict.NOT_MET


def test_counts_that_differ_from_vllms_do_not_show_the_first_row(launched: Launched) -> None:
    assert verdicts(replace(launched, disagreements={"x": [1.0, 2.0]}))[0] is Verdict.NOT_MET
    assert verdicts(replace(launched, disagreements=None))[0] is Verdict.NOT_RUN


def test_a_candidate_without_a_graph_is_reported(launched: Launched) -> None:
    assert verdicts(changed(launched, capturedK=[0, 5]))[1] is Verdict.NOT_MET
    assert verdicts(changed(launched, cudaGraphs="PIECEWISE"))[1] is Verdict.NOT_MET


def test_another_default_than_the_operator_expects_is_reported(launched: Launched) -> None:
    assert verdicts(changed(launched, maxNumSeqs=256))[2] is Verdict.NOT_MET


def test_estimates_are_judged_by_weights_and_graphs(launched: Launched) -> None:
    assert verdicts(logged(launched, loaded_gib=20.0))[4] is Verdict.NOT_MET
    assert verdicts(logged(launched, graph_gib=3.0))[4] is Verdict.NOT_MET


def test_without_a_gpu_its_rows_did_not_run(launched: Launched) -> None:
    on_cpu = replace(logged(launched, graph_gib=None, loaded_gib=None), gpu="")
    assert verdicts(on_cpu)[1:3] == [Verdict.NOT_RUN, Verdict.NOT_RUN]
    assert verdicts(on_cpu)[4] is Verdict.NOT_RUN
