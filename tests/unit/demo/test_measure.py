from __future__ import annotations

import pytest

from examples.demo.measure import (
    Decided,
    Drafts,
    Stretch,
    acceptance_rate,
    k_at,
    moves,
    rate,
    slice_rate,
)
from examples.demo.phases import Arm, Phase
from examples.demo.prompts import Kind
from tests.unit.demo.factories import a_second, a_stretch, observed


def test_a_rate_is_tokens_over_the_time_that_they_took() -> None:
    seconds = (a_second(2.0, seconds=2.0, tokens=100), a_second(4.0, seconds=2.0, tokens=300))
    stretch = Stretch(Arm.OUTRIDER, 0, Phase(Kind.CODE, 1), seconds)
    assert rate(stretch, since=0.0, until=1.0) == pytest.approx(100.0)


def test_the_second_half_leaves_out_the_first() -> None:
    assert rate(a_stretch(tokens=(0, 0, 50, 70)), since=0.5, until=1.0) == pytest.approx(60.0)


def test_a_static_slice_leaves_out_its_ramp() -> None:
    assert slice_rate(a_stretch(tokens=(0, 5, 100, 200))) == pytest.approx(150.0)


def test_a_slice_that_is_all_ramp_has_no_rate() -> None:
    assert slice_rate(a_stretch(tokens=(10, 10))) is None


@pytest.mark.parametrize(("streams", "k"), [(1, 3), (8, 3), (9, 1), (33, 0)])
def test_k_is_read_from_the_row_of_the_load(streams: int, k: int) -> None:
    assert k_at("8:3,32:1,*:0", streams) == k


def test_a_table_without_an_open_row_is_an_error() -> None:
    with pytest.raises(ValueError, match="no open row"):
        k_at("8:3", 9)


def test_acceptance_is_a_ratio_of_sums() -> None:
    spans = [Drafts(time=0, accepted=90, drafted=100), Drafts(time=1, accepted=0, drafted=900)]
    assert acceptance_rate(spans) == pytest.approx(0.09)


def test_acceptance_is_unknown_when_nothing_was_drafted() -> None:
    assert acceptance_rate([]) is None


def chosen(*decisions: Decided, streams: int = 1, start_table: str = "*:3") -> list[tuple[int, int]]:
    seen = [observed(decision.time, decision.to) for decision in decisions]
    found = moves([a_stretch(streams=streams)], decisions, seen, start_table)
    return [(move.from_k, move.to_k) for move in found]


def test_a_better_k_is_a_move() -> None:
    assert chosen(Decided(3, "*:5", "BetterK")) == [(3, 5)]


def test_a_trial_and_the_way_back_are_no_moves() -> None:
    assert chosen(Decided(3, "*:5", "Calibration"), Decided(5, "*:3", "Calibrated")) == []


def test_a_choice_after_trials_is_compared_with_the_choice_before() -> None:
    assert chosen(Decided(3, "*:0", "Calibration"), Decided(5, "*:1", "Calibrated")) == [(3, 1)]


def test_a_new_table_with_the_same_k_at_this_load_is_no_move() -> None:
    assert chosen(Decided(3, "4:3,*:0", "BetterK"), streams=2, start_table="8:3,*:0") == []


def test_a_table_that_was_never_in_force_is_no_move() -> None:
    assert moves([a_stretch()], [Decided(3, "*:5", "BetterK")], [observed(4, "*:3")], "*:3") == []


def test_a_decision_outside_the_lap_moves_the_reference_only() -> None:
    before, during = Decided(-5, "*:1", "BetterK"), Decided(3, "*:2", "BetterK")
    assert chosen(before, during) == [(1, 2)]
