from __future__ import annotations

import pytest

from examples.demo.measure import Drafts, Stretch, acceptance_rate, k_at, moves, rate, slice_rate
from examples.demo.phases import Arm, Phase
from examples.demo.prompts import Kind
from tests.unit.demo.factories import a_second, a_stretch, observed


def test_a_rate_is_tokens_over_the_time_that_they_took() -> None:
    seconds = (a_second(2.0, tokens=100), a_second(4.0, tokens=300))
    stretch = Stretch(Arm.OUTRIDER, 0, Phase(Kind.CODE, 1), 0.0, seconds)
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


def test_a_new_table_that_stays_is_a_held_move() -> None:
    seen = [observed(1, "*:3"), observed(3, "*:5"), observed(19, "*:5")]
    (move,) = moves([a_stretch()], seen)
    assert (move.from_k, move.to_k, move.held) == (3, 5, True)


def test_a_trial_is_a_move_that_was_not_held() -> None:
    seen = [observed(1, "*:3"), observed(3, "*:5"), observed(5, "*:3")]
    assert [move.held for move in moves([a_stretch()], seen)] == [False, True]


def test_a_new_table_with_the_same_k_at_this_load_is_no_move() -> None:
    seen = [observed(1, "8:3,*:0"), observed(3, "4:3,*:0")]
    assert moves([a_stretch(streams=2)], seen) == []


def test_a_load_that_reaches_another_row_is_no_move() -> None:
    low, high = a_stretch(streams=1), a_stretch(streams=32, start=20.0)
    seen = [observed(5, "8:3,*:0"), observed(15, "8:3,*:0"), observed(25, "8:3,*:0")]
    assert moves([low, high], seen) == []


def test_statuses_without_a_table_are_skipped() -> None:
    seen = [observed(1, "*:3"), observed(3, None), observed(5, "*:3")]
    assert moves([a_stretch()], seen) == []
