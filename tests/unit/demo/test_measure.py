from __future__ import annotations

import pytest

from examples.demo.measure import Drafts, acceptance_rate, moves, own_parts, rate
from examples.demo.phases import Arm
from examples.kit.records import DecisionSample
from tests.unit.demo.factories import a_status, a_stretch, decided
from tests.unit.kit.factories import a_count


def test_a_rate_is_tokens_over_the_time_that_they_took() -> None:
    counts = (a_count(2.0, seconds=2.0, tokens=100), a_count(4.0, seconds=2.0, tokens=300))
    assert rate(counts) == pytest.approx(100.0)


def test_a_slice_counts_after_its_ramp() -> None:
    stretch = a_stretch(tokens=(0, 5, 100, 200), uncounted=2.0)
    assert [one.tokens for one in stretch.counted] == [100, 200]


def test_what_outrider_drove_of_a_load_is_its_learning_and_its_slices() -> None:
    learning, own = a_stretch(uncounted=20.0), a_stretch(start=30.0, uncounted=2.0)
    held, other = a_stretch(start=20.0, arm=Arm.NO_DRAFTS), a_stretch(start=50.0, streams=8)
    assert own_parts([learning, held, own, other]) == {"code x1": [learning, own], "code x8": [other]}


def test_acceptance_is_a_ratio_of_sums() -> None:
    spans = [Drafts(time=0, accepted=90, drafted=100), Drafts(time=1, accepted=0, drafted=900)]
    assert acceptance_rate(spans) == pytest.approx(0.09)


def chosen(*decisions: DecisionSample, streams: int = 1, start_table: str = "*:3") -> list[tuple[int, int]]:
    seen = [a_status(decision.time, decision.to_table) for decision in decisions]
    found = moves([a_stretch(streams=streams)], decisions, seen, start_table)
    return [(move.from_k, move.to_k) for move in found]


def test_a_better_k_is_a_move() -> None:
    assert chosen(decided(3, "*:5", "BetterK")) == [(3, 5)]


def test_a_trial_and_the_way_back_are_no_moves() -> None:
    assert chosen(decided(3, "*:5", "Calibration"), decided(5, "*:3", "Calibrated")) == []


def test_a_choice_after_trials_is_compared_with_the_choice_before() -> None:
    assert chosen(decided(3, "*:0", "Calibration"), decided(5, "*:1", "Calibrated")) == [(3, 1)]


def test_a_move_is_placed_in_the_time_that_was_the_tuners_own() -> None:
    stretches = [a_stretch(), a_stretch(start=100.0)]
    found = moves(stretches, [decided(103, "*:5", "BetterK")], [a_status(103, "*:5")], "*:3")
    assert [move.seconds for move in found] == [23.0]
