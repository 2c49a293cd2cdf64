from __future__ import annotations

import pytest

from examples.kit.loads import Prompts
from tests.bench.engine.figures import Analysis
from tests.bench.engine.plan import NONE
from tests.bench.engine.prediction import Prediction
from tests.bench.engine.records import UnitRecord
from tests.bench.engine.result import Goal, Result, result
from tests.bench.engine.summary import HEADINGS, markdown, rows
from tests.bench.engine.trace import parse_trace
from tests.unit.bench_engine.factories import a_block, a_run, a_status, conditions

TRACE = parse_trace("1:40,8:40", Prompts.CODE)


def units(*, eight: int = 396, ema: int = 300) -> list[UnitRecord]:
    statuses = [
        a_status(39, "*:3", speedup=(1.9, 2.0, 2.1), measured_at=35),
        a_status(41, "*:3"),
        a_status(52, "1:3,*:0"),
    ]
    return [
        *(a_block(number, {"0": 100, "3": 200, "hand": 200}) for number in range(2)),
        *(a_block(number, {"0": 400, "3": 300, "hand": 300}, streams=8) for number in range(2)),
        *(a_block(number, {NONE: 100}) for number in range(2)),
        *(a_block(number, {NONE: 400}, streams=8) for number in range(2)),
        a_run("ema", [(1, [200] * 40), (8, [ema] * 40)], statuses=[a_status(41, "*:3")]),
        a_run("outrider", [(1, [200] * 40), (8, [eight] * 40)], statuses=statuses),
    ]


def judged(found: list[UnitRecord]) -> Result:
    return result(Analysis(TRACE, found), conditions())


def goals(found: list[UnitRecord]) -> dict[str, Goal]:
    names = ("regret", "first", "loss", "coverage", "reaction", "failed", "restarts")
    return dict(zip(names, judged(found).goals, strict=True))


def test_a_good_run_reaches_every_goal() -> None:
    assert [name for name, goal in goals(units()).items() if goal.reached is not True] == []


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (units(eight=300), {"regret", "first", "loss"}),
        (units(ema=410), {"first"}),
        ([unit.model_copy(update={"restarts": 1}) for unit in units()[-1:]] + units()[:-1], {"restarts"}),
    ],
    ids=["slow", "behind a rule", "restarted"],
)
def test_a_missed_goal_is_marked(found: list[UnitRecord], missed: set[str]) -> None:
    assert {name for name, goal in goals(found).items() if goal.reached is False} == missed


def test_a_step_without_a_needed_table_misses_its_goal() -> None:
    found = units()
    found[-1] = found[-1].model_copy(update={"statuses": (a_status(41, "*:3"), a_status(79, "*:3"))})
    assert goals(found)["reaction"].reached is False


def test_a_run_without_outrider_leaves_its_goals_open() -> None:
    told = goals(units()[:-1])
    assert {name for name, goal in told.items() if goal.reached is None} == {
        "regret",
        "first",
        "loss",
        "coverage",
        "reaction",
    }


def test_stand_ins_that_stayed_late_are_named() -> None:
    first, *rest = [unit.model_copy(update={"late": 0.001}) for unit in units()]
    found = judged([first.model_copy(update={"late": 0.02}), *rest])
    assert found.late == (first.key,)
    assert found.goals[-1].reached is False
    assert found.goals[-1].note == f"the latest of all lost 2.00%; {first.key}"


def predicted(arm: str, rate: float, regret: float) -> Prediction:
    return Prediction(arm=arm, tokens_per_second=rate, regret_whole=regret, regret_settled=regret)


def told_beside(*predictions: Prediction) -> Result:
    return result(Analysis(TRACE, units()), conditions(), predictions)


def test_a_prediction_stands_beside_its_arm_and_is_marked_where_it_is_more_than_a_point_away() -> None:
    found = told_beside(predicted("outrider", 298.0, 0.005), predicted("3", 250.0, 0.09))
    own, other = (dict(zip(HEADINGS, row, strict=True)) for row in rows(found))
    assert (own["arm"], own["tokens/s"], own["predicted"]) == ("Outrider", "298 [298, 298]", "298 (+0.0 %)")
    assert own["regret"].startswith("0.5 ")
    assert (own["predicted regret"], own["reaction, s"]) == ("0.5", "12, at most 12")
    assert (other["predicted"], other["predicted regret"]) == ("250 (+0.0 %)", "9.0!")


def test_the_table_for_the_documentation_has_every_arm_and_every_goal() -> None:
    lines = markdown(told_beside(predicted("outrider", 298.0, 0.005))).splitlines()
    assert lines[0].startswith("| arm | tokens/s |")
    assert lines[2].startswith("| Outrider | 298 [298, 298] |")
    assert len([line for line in lines if line.startswith("- ")]) == 7
