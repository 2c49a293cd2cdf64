"""The record of canaries and relaunches: goals, and the worst kind first."""

from __future__ import annotations

from typing import Any

from tests.bench.traffic.structural_record import goals, record_of, tables


def a_run(**fields: Any) -> dict[str, Any]:
    return {
        "engine": "a40_7b",
        "kind": "canary",
        "true_overhead": 0.1,
        "number": 0,
        "gain": 0.1,
        "with_starts": 0.05,
        "after": None,
        "relaunches": 0,
        "canary_seconds": 600.0,
        "overhead": 0.09,
        "coverage": 1.0,
        "width": 0.05,
        "reports": 100,
        **fields,
    }


RUNS = [
    a_run(),
    a_run(number=1, gain=0.2, overhead=0.11),
    a_run(kind="relaunch", gain=-0.05, with_starts=-0.1, after=0.0, relaunches=1, canary_seconds=0.0),
    a_run(kind="slow canary", gain=0.0, coverage=0.0, reports=200, overhead=0.02, width=0.08),
]


def test_goals_that_are_missed_say_so() -> None:
    assert [row[2] for row in goals(RUNS)] == [
        "0.0 %",
        "**missed**: 5.0 %",
        "**missed**: 50.0 %",
        "**missed**: 6.5 %",
    ]


def test_the_worst_kind_comes_first() -> None:
    _, gained, measured, _ = tables(RUNS)
    assert [row[0] for row in gained.rows] == ["relaunch", "slow canary", "canary"]
    assert gained.rows[-1][2:] == ["15.0 [10.0, 20.0]", "5.0 [5.0, 5.0]", "", "0"]
    assert [row[0] for row in measured.rows] == ["slow canary", "canary"]
    assert measured.rows[-1][2:] == ["10.0 [9.0, 11.0]", "100.0 [100.0, 100.0]", "5.0 [5.0, 5.0]"]


def test_other_overheads_have_their_own_columns_and_rows() -> None:
    other = a_run(kind="relaunch", true_overhead=0.03, gain=-0.01, canary_seconds=0.0, coverage=None)
    reached, gained, _, others = tables([*RUNS, other])
    assert reached.columns[2:] == ["K=0 costs 3.0 %", "K=0 costs 10.0 %"]
    assert [row[2] for row in reached.rows] == ["no relaunch", "1.0 %", "", ""]
    assert len(gained.rows) == 3
    assert others.rows == [["3.0", "relaunch", "-1.0 [-1.0, -1.0]", "9.0 [9.0, 9.0]", "0"]]


def test_the_record_names_its_repetitions() -> None:
    result = {"date": "2026-01-01T00:00:00", "commit": "abc1234", "command": "python -m x", "runs": RUNS}
    record = record_of(result, "2026-01-01-canaries")
    assert "2 repetitions" in record.interval
    assert record.raw == "2026-01-01-canaries.raw.json"
