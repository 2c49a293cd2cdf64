from __future__ import annotations

import pytest

from tests.bench.engine.rates import mean, pieces, rate, settled_pieces, slices_of, whole_pieces
from tests.unit.bench_engine.factories import a_block, a_stretch, counts


def test_only_periods_wholly_between_two_times_count() -> None:
    found = rate(counts([10, 20, 30, 40]), 0.5, 3.2)
    assert found is not None
    assert found.value == 25.0


def test_pieces_share_out_every_count_once() -> None:
    found = pieces(counts([10] * 10), 0, 10)
    assert [(one.number, one.seconds) for one in found] == [(0, 4.0), (1, 6.0)]
    assert sum(one.tokens for one in found) == 100


def test_the_ramp_and_the_first_half_minute_are_separate() -> None:
    stretch = a_stretch([0, 0, *[10] * 28, *[50] * 10])
    assert mean(whole_pieces(stretch)) == pytest.approx((28 * 10 + 10 * 50) / 38)
    assert mean(settled_pieces(stretch)) == 50.0


def test_a_slice_counts_from_the_moment_its_table_is_in_force() -> None:
    found = slices_of([a_block(0, {"0": 100, "3": 150}), a_block(1, {"3": 170, "0": 110})])
    assert {key: [(one.number, one.value) for one in rates] for key, rates in found.items()} == {
        ("code x1", "0"): [(0, 100.0), (1, 110.0)],
        ("code x1", "3"): [(0, 150.0), (1, 170.0)],
    }
