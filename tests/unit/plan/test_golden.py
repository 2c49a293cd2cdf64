from __future__ import annotations

import pytest

from tests.unit.plan import golden


@pytest.mark.parametrize("case", golden.cases())
def test_the_plan_is_the_golden_one(case: str) -> None:
    hint = "if the change is meant: `python -m tests.unit.plan.golden --write`, then read the diff"
    assert golden.planned(case) == golden.expected(case), hint


def test_there_are_golden_plans() -> None:
    assert golden.cases()
