from __future__ import annotations

from examples.demo.phases import SIMULATED_TRACE, STREAMS, TRACE, Arm, Durations, laps


def test_the_trace_goes_up_and_down_with_code_and_then_with_prose() -> None:
    assert [load.name for load in TRACE] == [
        *("code x1", "code x8", "code x32", "code x2"),
        *("prose x1", "prose x8", "prose x32", "prose x2"),
    ]


def test_static_arms_run_before_and_after_outrider() -> None:
    arms = [lap.arm for lap in laps(Durations())]
    middle = arms.index(Arm.OUTRIDER)
    assert arms[:middle] == arms[:middle:-1]
    assert set(arms[:middle]) == {Arm.NO_DRAFTS, Arm.LONGEST_DRAFTS}


def test_the_load_leaves_time_for_set_up_within_thirteen_minutes() -> None:
    assert Durations().load_seconds <= 10.5 * 60


def test_the_simulated_lap_has_the_same_streams_and_takes_two_minutes() -> None:
    assert tuple(load.streams for load in SIMULATED_TRACE) == STREAMS
    assert Durations().simulated * len(SIMULATED_TRACE) == 120
