from __future__ import annotations

import pytest

from tests.bench.engine.records import UnitRecord
from tests.bench.engine.result import Goal
from tests.bench.engine.summary import HEADINGS, markdown, rows
from tests.unit.bench_engine.factories import a_status, compared_units, judged, judged_beside, predicted


def goals(found: list[UnitRecord]) -> dict[str, Goal]:
    names = ("regret", "first", "loss", "coverage", "reaction", "failed", "restarts")
    return dict(zip(names, judged(found).goals, strict=True))


def test_a_good_run_reaches_every_goal() -> None:
    assert [name for name, goal in goals(compared_units()).items() if goal.reached is not True] == []


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (compared_units(eight=300), {"regret", "first", "loss"}),
        (compared_units(ema=410), {"first"}),
        (
            [unit.model_copy(update={"restarts": 1}) for unit in compared_units()[-1:]]
            + compared_units()[:-1],
            {"restarts"},
        ),
    ],
    ids=["slow", "behind a rule", "restarted"],
)
def test_a_missed_goal_is_marked(found: list[UnitRecord], missed: set[str]) -> None:
    assert {name for name, goal in goals(found).items() if goal.reached is False} == missed


def test_a_step_without_a_needed_table_misses_its_goal() -> None:
    found = compared_units()
    found[-1] = found[-1].model_copy(update={"statuses": (a_status(41, "*:3"), a_status(79, "*:3"))})
    assert goals(found)["reaction"].reached is False


def test_a_run_without_outrider_leaves_its_goals_open() -> None:
    told = goals(compared_units()[:-1])
    assert {name for name, goal in told.items() if goal.reached is None} == {
        "regret",
        "first",
        "loss",
        "coverage",
        "reaction",
    }


def test_stand_ins_that_stayed_late_are_named() -> None:
    first, *rest = [unit.model_copy(update={"late": 0.001}) for unit in compared_units()]
    found = judged([first.model_copy(update={"late": 0.02}), *rest])
    assert found.late == (first.key,)
    assert found.goals[-1].reached is False
    assert found.goals[-1].note == f"the latest of all lost 2.00%; {first.key}"


def test_a_prediction_stands_beside_its_arm_and_is_marked_where_it_is_more_than_a_point_away() -> None:
    found = judged_beside(predicted("outrider", 298.0, 0.005), predicted("3", 250.0, 0.09))
    own, other = (dict(zip(HEADINGS, row, strict=True)) for row in rows(found))
    assert (own["arm"], own["tokens/s"], own["predicted"]) == ("Outrider", "298 [298, 298]", "298 (+0.0 %)")
    assert own["regret"].startswith("0.5 ")
    assert (own["predicted regret"], own["reaction, s"]) == ("0.5", "12, at most 12")
    assert (other["predicted"], other["predicted regret"]) == ("250 (+0.0 %)", "9.0!")


def test_the_table_for_the_documentation_has_every_arm_and_every_goal() -> None:
    lines = markdown(judged_beside(predicted("outrider", 298.0, 0.005))).splitlines()
    assert lines[0].startswith("| arm | tokens/s |")
    assert lines[2].startswith("| Outrider | 298 [298, 298] |")
    assert len([line for line in lines if line.startswith("- ")]) == 7
