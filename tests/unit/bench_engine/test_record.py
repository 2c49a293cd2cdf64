"""The record of closed loops, by their results."""

from __future__ import annotations

import pytest

from tests.bench.engine.figures import ArmFigures
from tests.bench.engine.plan import NONE
from tests.bench.engine.record import BEST_FIXED, LARGEST_FIXED, OWN, drawn, record_of, tables
from tests.bench.engine.result import Result
from tests.unit.bench_engine.factories import judged_beside, predicted

H100, A40 = "H100, 8B, EAGLE-3", "A40, 7B, draft model; 4 pods, one takes 1.3 times as long"


def a_result(commit: str = "abc1234", **conditions: object) -> Result:
    found = judged_beside(predicted("outrider", 298.0, 0.005))
    changed = {"commit": commit, "engine": "twin:h100_8b", **conditions}
    return found.model_copy(update={"conditions": found.conditions.model_copy(update=changed)})


def test_gains_and_goals_have_a_column_for_each_engine() -> None:
    other = a_result(engine="twin:a40_7b", pods=4, slow_pod=1.3)
    gains, goals, *of_engines = tables([a_result(), other])
    assert gains.columns == ["gain over no drafter, %", H100, A40]
    assert [row[0] for row in gains.rows[:3]] == [OWN, BEST_FIXED, LARGEST_FIXED]
    assert gains.rows[0][1].startswith("19.2 [")
    assert goals.rows[0][1].endswith("(limit 0.03)")
    arms, loads = of_engines[:2], of_engines[2:]
    assert [table.columns[0] for table in arms] == [H100, A40]
    assert [table.columns[0].partition(": Outrider")[0] for table in loads] == [H100, A40]


def test_the_launch_without_a_drafter_has_no_gain() -> None:
    arms = tables([a_result()])[2]
    rows = {row[0]: row for row in arms.rows}
    assert rows["no drafter (another launch)"][-1] == ""
    assert rows[OWN][2] == "298"
    assert NONE not in {row[0] for row in tables([a_result()])[0].rows}


def slower(result: Result, ratio: float, **conditions: object) -> Result:
    """Another run, in which Outrider gained this ratio of what it gained."""

    def changed(arm: ArmFigures) -> ArmFigures:
        if arm.arm != "outrider" or arm.loss is None:
            return arm
        loss = arm.loss.model_copy(update={"value": arm.loss.value * ratio})
        return arm.model_copy(update={"loss": loss})

    figures = result.figures.model_copy(update={"arms": [changed(arm) for arm in result.figures.arms]})
    other = result.conditions.model_copy(update=conditions)
    return result.model_copy(update={"figures": figures, "conditions": other})


def test_brackets_of_several_runs_are_the_lowest_and_the_highest() -> None:
    first = a_result(started="2026-01-01T09:00")
    runs = [slower(first, ratio, started=f"2026-01-01T1{hour}:00") for hour, ratio in enumerate((0.5, 0.9))]
    gains, *_, single = tables([first, *runs])
    assert gains.rows[0][1] == "15.4 [9.6, 19.2]"
    assert [row[0] for row in single.rows] == ["run 1", "run 2", "run 3"]
    assert [row[1].partition(" ")[0] for row in single.rows] == ["19.2", "9.6", "17.3"]
    record = record_of([*runs, first], "2026-01-01-closed-loop")
    assert record.interval.startswith(
        "lowest and highest of 3 runs, which started at 2026-01-01 09:00, 2026-01-01 10:00, 2026-01-01 11:00"
    )


def test_a_goal_names_the_runs_that_missed_it() -> None:
    first, other = a_result(), a_result()
    goal = first.goals[0]
    assert goal.value is not None
    missed = goal.model_copy(update={"value": 0.5, "reached": False})
    other = other.model_copy(update={"goals": [missed, *other.goals[1:]]})
    cell = tables([first, other])[1].rows[0][1]
    assert cell == f"**missed in 1 of 2 runs**: {goal.value:.3g}, 0.5 (limit 0.03)"


def test_loads_of_outrider_come_worst_first() -> None:
    (loads,) = (table for table in tables([a_result()]) if "worst load first" in table.columns[0])
    gains = [float(row[2].partition(" ")[0]) for row in loads.rows]
    assert gains == sorted(gains)


def test_runs_without_a_launch_without_a_drafter_have_no_gains_and_no_bars() -> None:
    found = a_result()
    arms = [
        arm.model_copy(
            update={"loss": None, "phases": [each.model_copy(update={"loss": None}) for each in arm.phases]}
        )
        for arm in found.figures.arms
        if arm.arm != NONE
    ]
    bare = a_result(engine="twin:a40_7b").model_copy(
        update={"figures": found.figures.model_copy(update={"arms": arms})}
    )
    gains, _, _, loads = tables([bare])
    assert {row[1] for row in gains.rows} == {""}
    assert {row[2] for row in loads.rows} == {""}
    assert "A40" not in drawn([found, bare])


def test_the_picture_has_a_bar_for_each_rule_and_engine() -> None:
    chart = drawn([a_result()])
    assert chart.startswith("<svg")
    assert "H100: Outrider" in chart
    assert "H100: largest K" in chart


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
