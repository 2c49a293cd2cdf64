from __future__ import annotations

from dataclasses import replace

import pytest

from examples.demo.outcome import judge, moved_in_use, result
from examples.demo.phases import SIMULATED_TRACE
from examples.demo.result import Result
from tests.unit.demo.factories import a_log, a_result, a_simulated_lap, some_conditions, some_steps

BOTH_WAYS = [2, -3]


def test_a_run_passes_when_k_went_both_ways_and_nothing_broke() -> None:
    assert judge(BOTH_WAYS, restarts=0, failed=0, errors=[]) == []


def test_a_k_that_never_rose_fails_the_run() -> None:
    assert "to a larger K" in judge([-3], restarts=0, failed=0, errors=[])[0]


def test_a_k_that_never_fell_fails_the_run() -> None:
    assert "to a smaller K" in judge([3], restarts=0, failed=0, errors=[])[0]


def test_a_restart_fails_the_run() -> None:
    assert "restarted" in judge(BOTH_WAYS, restarts=1, failed=0, errors=[])[0]


def test_a_failed_request_fails_the_run_and_is_named() -> None:
    assert "HTTP 503" in judge(BOTH_WAYS, restarts=0, failed=2, errors=["HTTP 503"])[0]


def test_a_whole_run_that_went_well_passes() -> None:
    assert a_result().passed


def test_learning_is_in_the_rate_of_the_whole_part_and_in_no_other() -> None:
    for phase in a_result().phases:
        own = 36 if phase.prompts == "turns" else 28
        assert phase.outrider_settled == pytest.approx(160)
        assert phase.outrider_whole_phase == pytest.approx((16 * 80 + own * 160) / (16 + own))


def moved_by_the_engine(by_k: dict[int, float]) -> Result:
    """Every step after learning has one of these K, and no schedule changed."""
    log = a_log()
    log.steps = [replace(span, by_k=by_k) for span in log.steps]
    log.decisions = []
    return result(log, some_conditions(), total_seconds=700.0)


def test_k_that_moved_in_the_engine_alone_passes_the_run() -> None:
    moved = moved_by_the_engine({1: 50.0, 2: 50.0})
    assert moved.moves == []
    assert moved_in_use(moved.phases, some_conditions()) == pytest.approx(ALL_LOADS)
    assert moved.passed


ALL_LOADS = [-1.5, -1.5, 1.5, -1.5] * 2 + [-1.5]
"""From the static schedule's 3 up to 8 streams, and 0 above."""


def test_k_that_stayed_near_the_static_schedule_has_not_moved() -> None:
    assert moved_in_use(moved_by_the_engine({2: 30.0, 3: 70.0}).phases[:1], some_conditions()) == []


def test_the_k_in_use_is_that_of_the_steps_and_not_that_of_the_schedule() -> None:
    first = a_result().phases[0]
    assert first.k_at_end == 5
    assert first.k_in_use == pytest.approx(2.5)
    assert first.chosen_by_engine == pytest.approx(1.0)
    assert first.steps_by_k == {0: 100.0, 5: 100.0}


def test_a_schedule_that_chose_k_where_texts_took_turns_is_noted_and_fails_nothing() -> None:
    log = a_log()
    log.steps = [some_steps(span.time, chosen=10.0) for span in log.steps]
    found = result(log, some_conditions(), total_seconds=700.0)
    assert found.passed
    assert found.notes == [
        "turns x8: the engine chose K at 10% of its steps after learning; the schedule chose K at the others."
    ]


def test_without_the_engines_counters_the_schedule_is_judged() -> None:
    log = a_log()
    log.steps = []
    found = result(log, some_conditions(), total_seconds=700.0)
    assert found.passed
    assert {phase.k_in_use for phase in found.phases} == {None}


def test_failed_requests_of_any_lap_are_counted() -> None:
    found = a_result(failed=3)
    assert (found.passed, found.requests.failed) == (False, 3)


def test_the_simulated_lap_has_its_own_part() -> None:
    found = a_result(lap=a_simulated_lap())
    assert found.simulated is not None
    assert [phase.phase for phase in found.simulated.phases] == [load.name for load in SIMULATED_TRACE]
    assert found.phases == a_result().phases
    assert found.stretches == a_result().stretches


def test_requests_that_failed_on_stand_ins_fail_the_run() -> None:
    assert "3 requests to simulated engines failed: boom." in a_result(lap=a_simulated_lap(failed=3)).failures


def test_a_stand_in_that_was_restarted_fails_the_run() -> None:
    assert not a_result(lap=a_simulated_lap(restarts=1)).passed


def test_a_stand_in_that_was_late_is_noted_and_fails_nothing() -> None:
    found = a_result(lap=a_simulated_lap(late=0.013))
    assert found.passed
    assert "1.3% longer" in found.notes[0]
