"""The comparison on SGLang: its traffic, and gains over the best fixed K."""

from __future__ import annotations

from typing import Any

import pytest

from outrider_twin.settings import Settings
from tests.bench.sglang import plan
from tests.bench.sglang.engines import ARMS, FIXED, OUTRIDER, THROUGHPUT_AWARE
from tests.bench.sglang.record import joined, tables
from tests.bench.sglang.summary import summary, text

LOADS = plan.Load(1, ("code",)), plan.Load(8, ("code", "prose"))
PHASE = plan.Phase("two loads", LOADS, 5.0)


def held(load: plan.Load, k: int, rate: float) -> dict[str, object]:
    return {"repeat": 0, "arm": FIXED, "load": load.name, "k": k, "tokens_per_second": rate}


def driven(repeat: int, rate: float) -> dict[str, object]:
    return {"repeat": repeat, "arm": OUTRIDER, "phase": PHASE.name, "tokens_per_second": rate}


def every_k(rates: dict[int, tuple[float, float]]) -> list[dict[str, object]]:
    """The rate of each K under both loads; 1 for a K that is not named."""
    return [
        held(load, k, rates.get(k, (1.0, 1.0))[place])
        for place, load in enumerate(LOADS)
        for k in plan.CANDIDATES
    ]


def test_the_best_fixed_k_is_one_for_all_loads_of_a_phase() -> None:
    rows = [*every_k({3: (100.0, 300.0), 5: (150.0, 200.0)}), driven(0, 220.0)]
    (found,) = summary(rows, [PHASE])
    assert (found["best_fixed"], found["gains"]) == ([3], [0.1])


def test_repeats_without_fixed_k_are_compared_with_those_of_the_first() -> None:
    rows = [*every_k({3: (100.0, 300.0)}), driven(0, 220.0), driven(1, 180.0)]
    (found,) = summary(rows, [PHASE])
    assert (found["gain"], found["gains"]) == (0.0, [0.1, -0.1])
    assert "two loads" in text([found])


def test_the_first_repeat_may_have_another_number() -> None:
    rows = [row | {"repeat": 1} for row in every_k({3: (100.0, 300.0)})]
    (found,) = summary([*rows, driven(1, 220.0)], [PHASE])
    assert found["gains"] == [0.1]


@pytest.mark.parametrize("engine", plan.STEP_TIMES)
def test_the_simulated_engine_takes_the_settings(engine: str) -> None:
    settings = Settings.model_validate(plan.settings(engine, 2.0, seed=1))
    assert set(settings.engine.curves()) == {plan.CODE, plan.PROSE}


def test_each_load_is_measured_once_with_each_k() -> None:
    found = plan.loads(plan.phases())
    assert len(found) == len(set(found))
    assert max(load.streams for load in found) == plan.MAX_NUM_SEQS


def test_the_record_begins_with_the_smallest_lead_over_sglang() -> None:
    phases = [plan.Phase(name, LOADS, 5.0) for name in ("easy", "hard")]
    slow = {THROUGHPUT_AWARE: {"easy": 0.5, "hard": 1.1}}
    driven_by = [
        {
            "repeat": repeat,
            "arm": arm,
            "phase": phase.name,
            "tokens_per_second": 200.0 * slow.get(arm, {}).get(phase.name, 0.8 if arm != OUTRIDER else 1.0),
        }
        for repeat in range(2)
        for arm in ARMS
        for phase in phases
    ]
    rows = [*every_k({3: (100.0, 300.0)}), *driven_by]
    leads, rates = tables({"summary": summary(rows, phases)})
    assert [row[0] for row in leads.rows] == ["hard", "easy"]
    assert leads.rows[0][1:] == ["25.0 [25.0, 25.0]", "-9.1 [-9.1, -9.1]", "0.0 [0.0, 0.0]"]
    assert rates.rows[0] == ["hard", "200 [200, 200]", "160 [160, 160]", "220 [220, 220]", "3"]


def result(*repeats: int, commit: str = "c") -> dict[str, Any]:
    rows = [
        {"repeat": repeat, "arm": arm, "phase": phase.name, "tokens_per_second": 100.0 + repeat}
        for repeat in repeats
        for arm in ARMS
        for phase in plan.phases()
    ]
    return {"commit": commit, "command": f"bench {repeats[0]}", "date": f"day {repeats[0]}", "runs": rows}


def test_results_of_several_days_are_one_with_all_repeats() -> None:
    found = joined([result(0, 1), result(2)])

    assert (found["command"], found["started"]) == ("bench 0; bench 2", ["day 0", "day 2"])
    assert {tuple(one["tokens_per_second"]) for one in found["summary"]} == {(100.0, 101.0, 102.0)}
    assert joined([found]) == found


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([result(1, 2)], "each may have its own only"),
        ([result(2, commit="d")], "different commits"),
        ([{**result(2), "complete": False}], "interrupted"),
    ],
)
def test_results_that_do_not_belong_together_are_refused(others: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        joined([result(0, 1), *others])
