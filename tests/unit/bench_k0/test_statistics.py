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


def test_engines_that_are_slow_for_as_long_as_they_live_widen_the_interval() -> None:
    lucky, unlucky = [1.0, 1.01, 1.02] * 2, [1.1, 1.11, 1.12] * 2
    mixed = [value for pair in zip(lucky, unlucky, strict=True) for value in pair]
    one = relative_cost(mixed, [1.0] * 12)
    two = relative_cost([*lucky, *unlucky], [1.0] * 12, starts=2)
    assert one["median_percent"] == two["median_percent"]
    assert width(one) < width(two)


def width(found: dict[str, object]) -> float:
    interval = found["interval_95_percent"]
    assert isinstance(interval, list)
    low, high = interval
    return float(high) - float(low)
