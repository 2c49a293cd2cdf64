from __future__ import annotations

import pytest

from examples.demo.measure import Move
from examples.demo.outcome import judge
from tests.unit.demo.factories import a_result


def a_move(from_k: int, to_k: int) -> Move:
    return Move(time=0.0, phase="code x1", streams=1, from_k=from_k, to_k=to_k, reason="BetterK")


BOTH_WAYS = [a_move(3, 5), a_move(3, 0)]


def test_a_run_passes_when_k_went_both_ways_and_nothing_broke() -> None:
    assert judge(BOTH_WAYS, restarts=0, failed=0, errors=[]) == []


def test_a_k_that_never_rose_fails_the_run() -> None:
    assert "never chose a larger K" in judge([a_move(3, 0)], restarts=0, failed=0, errors=[])[0]


def test_a_k_that_never_fell_fails_the_run() -> None:
    assert "never chose a smaller K" in judge([a_move(0, 3)], restarts=0, failed=0, errors=[])[0]


def test_a_restart_fails_the_run() -> None:
    assert "restarted" in judge(BOTH_WAYS, restarts=1, failed=0, errors=[])[0]


def test_a_failed_request_fails_the_run_and_is_named() -> None:
    assert "HTTP 503" in judge(BOTH_WAYS, restarts=0, failed=2, errors=["HTTP 503"])[0]


def test_a_whole_run_that_went_well_passes() -> None:
    assert a_result().passed


def test_every_phase_has_outrider_and_both_static_arms() -> None:
    for phase in a_result().phases:
        assert phase.outrider_whole_phase == pytest.approx(160)
        assert phase.outrider_second_half == pytest.approx(160)
        assert phase.static_zero.slices == pytest.approx([100, 100])
        assert phase.static_largest.slices == pytest.approx([150, 150])


def test_a_phase_says_where_k_began_and_ended() -> None:
    code, prose = a_result().phases[0], a_result().phases[-1]
    assert (code.k_at_start, code.k_at_end) == (3, 5)
    assert (prose.k_at_start, prose.k_at_end) == (3, 0)


def test_failed_requests_of_any_lap_are_counted() -> None:
    found = a_result(failed=3)
    assert (found.passed, found.requests.failed) == (False, 3)


def test_samples_lie_on_one_rising_time_axis() -> None:
    times = [sample.seconds for sample in a_result().samples]
    assert times == sorted(times)
    assert times[0] == pytest.approx(1.0)
