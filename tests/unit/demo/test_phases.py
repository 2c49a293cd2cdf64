from __future__ import annotations

from itertools import groupby

from examples.demo.phases import SIMULATED_TRACE, STREAMS, TRACE, Arm, Durations, visits
from examples.kit.loads import RAMP_SECONDS
from outrider.tuning.policy import Exploration


def test_the_trace_goes_up_and_down_with_code_and_then_with_prose() -> None:
    assert [load.name for load in TRACE] == [
        *("code x1", "code x8", "code x32", "code x2"),
        *("prose x1", "prose x8", "prose x32", "prose x2"),
    ]


def test_in_each_phase_static_arms_run_before_and_after_outrider() -> None:
    phases = [(load, list(found)) for load, found in groupby(visits(Durations()), lambda visit: visit.load)]
    assert [load for load, _ in phases] == list(TRACE)
    for _, found in phases:
        arms = [visit.arm for visit in found]
        middle = arms.index(Arm.OUTRIDER)
        assert arms[:middle] == arms[:middle:-1]
        assert set(arms[:middle]) == {Arm.NO_DRAFTS, Arm.LONGEST_DRAFTS}


def test_what_the_tuner_tries_in_a_new_load_lies_before_the_half_that_counts() -> None:
    assert Durations().outrider / 2 > Exploration().calibration_seconds


def test_a_static_arm_is_measured_for_more_than_half_as_long_as_outrider() -> None:
    usual = Durations()
    assert 2 * (usual.static - RAMP_SECONDS) > usual.outrider / 4


def test_the_load_of_all_arms_takes_no_more_than_twenty_one_minutes() -> None:
    assert Durations().load_seconds <= 21 * 60


def test_the_simulated_lap_has_the_same_streams_and_takes_two_minutes() -> None:
    assert tuple(load.streams for load in SIMULATED_TRACE) == STREAMS
    assert Durations().simulated * len(SIMULATED_TRACE) == 120
