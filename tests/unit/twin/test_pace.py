"""Deadlines and lateness."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_twin.pace import Pace

STEP = 0.01


def test_while_there_is_work_deadlines_are_chained() -> None:
    pace = Pace(slack=0.005)
    assert pace.begin(STEP, 100.0, busy=False) == pytest.approx(100.01)
    assert pace.begin(STEP, 100.012, busy=True) == pytest.approx(100.02)
    assert pace.lateness().lost == 0


def test_after_idle_time_a_step_begins_when_it_is_asked_for() -> None:
    pace = Pace(slack=0.005)
    pace.begin(STEP, 100.0, busy=False)
    assert pace.begin(STEP, 100.012, busy=False) == pytest.approx(100.022)
    assert pace.lateness().lost == 0


def test_a_step_that_is_asked_for_ahead_of_time_waits_for_the_one_before() -> None:
    pace = Pace(slack=0.005)
    pace.begin(STEP, 100.0, busy=False)
    assert pace.begin(STEP, 100.001, busy=True) == pytest.approx(100.02)


def test_a_delay_beyond_the_slack_is_lost() -> None:
    pace = Pace(slack=0.005)
    pace.begin(STEP, 100.0, busy=False)
    assert pace.begin(STEP, 100.03, busy=True) == pytest.approx(100.04)
    lateness = pace.lateness()
    assert lateness.lost == pytest.approx(0.02)
    assert lateness.ratio == pytest.approx(1.0)


def test_the_delay_of_the_last_step_before_a_pause_is_lost() -> None:
    pace = Pace(slack=0.005)
    due = pace.begin(STEP, 100.0, busy=False)
    pace.ended(due, due + 0.003)
    pace.begin(STEP, 200.0, busy=False)
    assert pace.lateness().lost == pytest.approx(0.003)
    assert pace.lateness().latest == pytest.approx(0.003)


@given(st.lists(st.tuples(st.floats(1e-4, 0.1), st.floats(0, 0.05), st.floats(0, 0.05)), min_size=1))
def test_real_time_is_scheduled_time_and_what_was_lost(steps: list[tuple[float, float, float]]) -> None:
    """Time of one stretch of work: sums and stopwatch agree, except for the last delay."""
    pace, now, began = Pace(slack=0.005), 50.0, 50.0
    for number, (seconds, between, late) in enumerate(steps):
        now += between if number else 0.0
        due = pace.begin(seconds, now, busy=number > 0)
        now = max(now, due + late)
        pace.ended(due, now)
    lateness, last = pace.lateness(), max(0.0, now - due)
    assert now - began == pytest.approx(lateness.scheduled + lateness.lost + last)
    assert lateness.latest >= last
    assert lateness.steps == len(steps)
