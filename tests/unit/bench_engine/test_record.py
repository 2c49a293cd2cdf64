"""The record of closed loops, by their results."""

from __future__ import annotations

import pytest

from tests.bench.engine.plan import NONE
from tests.bench.engine.record import BEST_FIXED, LARGEST_FIXED, OWN, record_of, tables
from tests.bench.engine.result import Result
from tests.unit.bench_engine.factories import judged_beside, predicted

H100, A40 = "H100, 8B, EAGLE-3", "A40, 7B, draft model; 4 pods, one takes 1.3 times as long"


def a_result(commit: str = "abc1234", **conditions: object) -> Result:
    found = judged_beside(predicted("outrider", 298.0, 0.005))
    changed = {"commit": commit, "engine": "twin:h100_8b", **conditions}
    return found.model_copy(update={"conditions": found.conditions.model_copy(update=changed)})


def test_gains_and_goals_have_a_column_for_each_engine() -> None:
    other = a_result(engine="twin:a40_7b", pods=4, slow_pod=1.3)
    gains, goals, *arms = tables([a_result(), other])
    assert gains.columns == ["gain over no drafter, %", H100, A40]
    assert [row[0] for row in gains.rows[:3]] == [OWN, BEST_FIXED, LARGEST_FIXED]
    assert gains.rows[0][1].startswith("19.2 [")
    assert goals.rows[0][1].endswith("(limit 0.03)")
    assert [table.columns[0] for table in arms] == [H100, A40]


def test_the_launch_without_a_drafter_has_no_gain() -> None:
    (arms,) = tables([a_result()])[2:]
    rows = {row[0]: row for row in arms.rows}
    assert rows["no drafter (another launch)"][-1] == ""
    assert rows[OWN][2] == "298"
    assert NONE not in {row[0] for row in tables([a_result()])[0].rows}


def test_runs_of_two_commits_make_no_record() -> None:
    with pytest.raises(ValueError, match="one commit"):
        record_of([a_result(), a_result("def5678")], "2026-01-01-closed-loop")


@pytest.mark.parametrize(
    ("started", "words"),
    [("10:00", "nothing else ran"), ("09:59", "runs overlapped, each with its own engines")],
)
def test_the_record_says_whether_runs_overlapped(started: str, words: str) -> None:
    results = [
        a_result(started="2026-01-01T09:00", finished="2026-01-01T10:00"),
        a_result(started=f"2026-01-01T{started}", finished="2026-01-01T11:00"),
    ]
    assert record_of(results, "2026-01-01-closed-loop").machine.endswith(words)
