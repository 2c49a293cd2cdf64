from __future__ import annotations

from itertools import groupby

from examples.demo.__main__ import QUICK
from examples.demo.phases import (
    SIMULATED_TRACE,
    STREAMS,
    TRACE,
    Arm,
    Durations,
    Visit,
    simulated_visits,
    visits,
)
from examples.kit.loads import RAMP_SECONDS, Prompts
from outrider.tuning.policy import Exploration


def test_the_trace_goes_up_and_down_with_code_then_with_prose_and_ends_with_both_by_turns() -> None:
    assert [load.name for load in TRACE] == [
        *("code x1", "code x8", "code x32", "code x2"),
        *("prose x1", "prose x8", "prose x32", "prose x2"),
        "turns x8",
    ]


def test_where_texts_take_turns_each_compared_half_has_whole_periods_of_both() -> None:
    (period,) = {load.prompts.period_seconds for load in TRACE} - {0.0}
    for durations in (Durations(), QUICK):
        for _, *slices in (found for found in phases(durations) if found[0].load.prompts is Prompts.TURNS):
            compared = [(visit.seconds - visit.uncounted, visit.arm) for visit in slices]
            halves = [seconds / 2 if arm is Arm.OUTRIDER else seconds for seconds, arm in compared]
            assert all(half > 0 and half % period == 0 for half in halves)


def test_turns_lengthen_an_interval_as_little_as_whole_periods_allow() -> None:
    load = TRACE[-1]
    assert [Durations().of(arm, load) for arm in (Arm.NO_DRAFTS, Arm.OUTRIDER)] == [10.0, 18.0]
    assert Durations(static=30.0, own=60.0).of(Arm.NO_DRAFTS, load) == 34.0


def phases(durations: Durations) -> list[list[Visit]]:
    return [list(found) for _, found in groupby(visits(durations), lambda visit: visit.load)]


def test_every_load_of_the_trace_is_a_phase() -> None:
    assert [found[0].load for found in phases(Durations())] == list(TRACE)


def test_outrider_learns_each_load_before_anything_is_compared() -> None:
    for learning, *slices in phases(Durations()):
        assert (learning.arm, learning.counts) == (Arm.OUTRIDER, False)
        assert all(visit.counts for visit in slices)


def test_what_the_tuner_tries_in_a_new_load_fits_in_its_learning() -> None:
    assert Durations().learning > Exploration().calibration_seconds


def test_each_round_is_mirrored_around_outriders_slice() -> None:
    for _, *slices in phases(Durations()):
        middle = len(slices) // 4
        first, second = slices[: 2 * middle + 1], slices[2 * middle + 1 :]
        assert first == first[::-1] == second
        assert [visit.arm for visit in first[: middle + 1]] == [
            Arm.NO_DRAFTS,
            Arm.LONGEST_DRAFTS,
            Arm.OUTRIDER,
        ]


def test_the_ramp_of_a_slice_does_not_count() -> None:
    for _, *slices in phases(Durations()):
        assert {visit.uncounted for visit in slices} == {RAMP_SECONDS}


def test_a_static_arm_is_compared_for_more_than_half_as_long_as_outrider() -> None:
    for load in TRACE:
        static, own = (Durations().of(arm, load) - RAMP_SECONDS for arm in (Arm.NO_DRAFTS, Arm.OUTRIDER))
        assert 2 * static > own / 2


def test_a_phase_takes_168_seconds_of_load_and_the_one_by_turns_176() -> None:
    assert [sum(visit.seconds for visit in found) for found in phases(Durations())] == [168.0] * 8 + [176.0]


def test_a_round_that_comes_once_is_mirrored_as_well() -> None:
    arms = [visit.arm for visit in phases(Durations(rounds=1))[0][1:]]
    assert len(arms) == 5
    assert arms == arms[::-1]


def test_half_of_each_phase_on_stand_ins_is_learning() -> None:
    found = simulated_visits(30.0)
    assert [visit.load for visit in found] == list(SIMULATED_TRACE)
    assert {(visit.arm, visit.seconds, visit.uncounted) for visit in found} == {(Arm.OUTRIDER, 30.0, 15.0)}


def test_the_simulated_lap_has_the_same_streams_and_takes_two_minutes() -> None:
    assert tuple(load.streams for load in SIMULATED_TRACE) == STREAMS
    assert Durations().simulated * len(SIMULATED_TRACE) == 120
