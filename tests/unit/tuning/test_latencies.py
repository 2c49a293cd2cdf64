"""A percentile from a histogram of gaps between outputs."""

from __future__ import annotations

from math import inf, log

import pytest

from outrider.tuning.observe.latencies import Latencies, pooled

EDGES = (0.01, 0.025, 0.05)


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((90.0, 10.0, 0.0, 0.0), -inf, log(0.01)),
        ((89.0, 11.0, 0.0, 0.0), log(0.01), log(0.025)),
        ((0.0, 0.0, 9.0, 1.0), log(0.025), log(0.05)),
        ((0.0, 0.0, 8.0, 2.0), log(0.05), inf),
    ],
)
def test_a_percentile_lies_between_two_edges(counts: tuple[float, ...], low: float, high: float) -> None:
    assert Latencies(EDGES, counts).quantile(0.9) == (low, high)


def test_without_gaps_there_is_no_percentile() -> None:
    assert Latencies(EDGES, (0.0,) * 4).quantile(0.9) is None


def test_pods_are_pooled_by_sums() -> None:
    one, two = Latencies((1.0,), (3.0, 0.0)), Latencies((1.0,), (1.0, 4.0))
    assert pooled([one, None, two]) == Latencies((1.0,), (4.0, 4.0))


def test_pods_that_count_by_other_edges_tell_nothing() -> None:
    assert pooled([Latencies((1.0,), (3.0, 0.0)), Latencies((2.0,), (3.0, 0.0))]) is None
    assert pooled([None]) is None
