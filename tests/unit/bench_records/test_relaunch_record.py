"""The record of the canary and of relaunches follows from the results of both benches."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from tests.bench.records.record import Table
from tests.bench.relaunch_record import record_of, tables
from tests.bench.tax import measured_overhead
from tests.unit.tuning_loop.learned import after_canary


def a_head(commit: str = "abc1234") -> dict[str, Any]:
    return {"commit": commit, "command": "python -m bench", "date": "2026-01-02T00:00:00+00:00"}


def a_canary(**changes: Any) -> dict[str, Any]:
    """A run that found an overhead of 3 % right."""
    found = {"given": 0.03, "said": 0.031, "deviation": 0.02, "seconds": 190.4, "failed": 0}
    return found | changes


def a_stretch(at: float, launch: str, rate: float, *, streams: int = 32) -> dict[str, Any]:
    return {
        "at": at,
        "streams": streams,
        "launches": [launch],
        "table": "K=0 at any batch size",
        "tokens_per_second": rate,
        "failed": 0,
    }


def overheads(*runs: dict[str, Any]) -> dict[str, Any]:
    return a_head() | {"runs": list(runs)}


def relaunches(*stretches: dict[str, Any], commit: str = "abc1234") -> dict[str, Any]:
    return a_head(commit) | {"scenes": {"drafter": {"came": True, "stretches": list(stretches)}}}


def relaunch_table(*stretches: dict[str, Any]) -> Table:
    return tables(overheads(a_canary()), relaunches(*stretches))[1]


@pytest.mark.parametrize("overhead", [None, IdleDrafterOverhead(0.03, 4e-4, 1e9, between_pods=4e-4)])
def test_the_overhead_is_read_from_what_the_operator_stores(overhead: IdleDrafterOverhead | None) -> None:
    assert measured_overhead(after_canary(overhead)) == overhead


def test_runs_of_one_overhead_share_a_row_and_the_lowest_overhead_is_first() -> None:
    found = overheads(a_canary(given=0.1, said=0.097), a_canary(), a_canary(said=None, deviation=None))
    rows = tables(found, relaunches(a_stretch(0, "", 400)))[0].rows
    assert [row[:2] for row in rows] == [["3.0 %", "3.1 %, none"], ["10.0 %", "9.7 %"]]


def test_each_time_that_a_launch_served_a_load_has_a_row() -> None:
    rows = relaunch_table(
        a_stretch(0, "", 90, streams=2),
        a_stretch(20, "", 400),
        a_stretch(40, "no-drafter", 420),
    ).rows
    assert [row[1:3] for row in rows] == [
        ["2", "as in the spec"],
        ["32", "as in the spec"],
        ["32", "without a drafter"],
    ]


def test_the_stretch_in_which_the_launch_changed_does_not_count() -> None:
    rows = relaunch_table(
        a_stretch(0, "no-drafter", 300), a_stretch(20, "no-drafter", 420), a_stretch(40, "no-drafter", 440)
    ).rows
    assert [row[4:] for row in rows] == [["0", "430"]]


def test_results_of_two_commits_make_no_record() -> None:
    with pytest.raises(ValueError, match="run both at one commit"):
        record_of(overheads(a_canary()), relaunches(a_stretch(0, "", 400), commit="def5678"), "2026-01-02-x")


def test_failed_requests_of_both_benches_are_counted() -> None:
    failing = a_stretch(0, "", 400) | {"failed": 2}
    found = record_of(overheads(a_canary(failed=1)), relaunches(failing), "2026-01-02-x")
    assert found.figures == {"failed requests": 3}
