"""Bins of batch sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_protocol.bins import batch_bins, bin_low, bin_of, geometric_bins

SIZES = st.integers(1, 2000)


def test_bins_double_around_powers_of_two() -> None:
    assert geometric_bins(1) == (1,)
    assert geometric_bins(2) == geometric_bins(3) == (1, 3)
    assert geometric_bins(4) == (1, 3, 6)
    assert geometric_bins(64) == (1, 3, 6, 12, 24, 48, 96)


@given(st.integers(1, 1024), st.integers(1, 2000))
def test_every_batch_lies_in_its_bin_and_the_last_bin_is_open(max_num_seqs: int, batch: int) -> None:
    edges = geometric_bins(max_num_seqs)
    index = bin_of(batch, edges)
    assert bin_low(index, edges) <= batch
    assert batch <= edges[index] or index == len(edges) - 1


def test_a_mean_batch_is_rounded_to_the_requests_that_engines_count() -> None:
    edges = geometric_bins(64)
    assert [bin_of(batch, edges) for batch in (0.4, 1.4, 1.6, 6.4, 6.6)] == [0, 0, 1, 2, 3]


def test_the_first_bin_begins_with_one_request_and_each_other_after_the_one_before() -> None:
    assert [bin_low(index, (1, 3, 12)) for index in range(3)] == [1, 2, 4]


@given(SIZES)
def test_the_bins_have_the_edges(max_num_seqs: int) -> None:
    edges, bins = geometric_bins(max_num_seqs), batch_bins(max_num_seqs)
    assert [batch.low for batch in bins] == [1, *(edge + 1 for edge in edges[:-1])]
    assert [batch.high for batch in bins] == [*edges[:-1], None]


@pytest.mark.parametrize(
    ("max_num_seqs", "labels"),
    [(1, ["1+"]), (2, ["1", "2+"]), (16, ["1", "2-3", "4-6", "7-12", "13+"])],
)
def test_labels(max_num_seqs: int, labels: list[str]) -> None:
    assert [batch.label for batch in batch_bins(max_num_seqs)] == labels
