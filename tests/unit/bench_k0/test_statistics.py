"""What pairs of runs say."""

from __future__ import annotations

from tests.bench.k0.statistics import relative_cost


def test_pairs_that_agree_have_a_narrow_interval() -> None:
    found = relative_cost([1.1, 2.2, 3.3], [1.0, 2.0, 3.0])
    assert (found["median_percent"], found["interval_95_percent"]) == (10.0, [10.0, 10.0])


def test_one_disturbed_pair_moves_the_interval_and_not_the_median() -> None:
    found = relative_cost([1.02, 1.02, 1.02, 1.5], [1.0] * 4)
    assert found["median_percent"] == 2.0
    assert found["interval_95_percent"] == [2.0, 50.0]


def test_a_machine_that_slows_down_between_pairs_costs_nothing() -> None:
    assert relative_cost([1.0, 4.0], [1.0, 4.0])["median_percent"] == 0.0
