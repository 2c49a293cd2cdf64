from __future__ import annotations

from itertools import groupby

from examples.demo.__main__ import QUICK
from examples.demo.phases import (
    TRACE,
    Arm,
    Durations,
    Visit,
    visits,
)
from examples.kit.loads import RAMP_SECONDS, Prompts


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


def phases(durations: Durations) -> list[list[Visit]]:
    return [list(found) for _, found in groupby(visits(durations), lambda visit: visit.load)]


def test_every_load_of_the_trace_is_a_phase() -> None:
    assert [found[0].load for found in phases(Durations())] == list(TRACE)


def test_outrider_learns_each_load_before_anything_is_compared() -> None:
    for learning, *slices in phases(Durations()):
        assert (learning.arm, learning.counts) == (Arm.OUTRIDER, False)
        assert all(visit.counts for visit in slices)


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
