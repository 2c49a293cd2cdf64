"""The bins of the sums are those of the operator's tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.schedule import geometric_bins
from outrider_engine.counting.bins import batch_bins, bin_indices

SIZES = st.integers(1, 2000)


@given(SIZES)
def test_the_operator_has_the_same_edges(max_num_seqs: int) -> None:
    edges = geometric_bins(max_num_seqs)
    bins = batch_bins(max_num_seqs)
    assert [batch.low for batch in bins] == [1, *(edge + 1 for edge in edges[:-1])]
    assert [batch.high for batch in bins] == [*edges[:-1], None]


@given(SIZES)
def test_every_batch_lies_in_its_bin(max_num_seqs: int) -> None:
    bins, indices = batch_bins(max_num_seqs), bin_indices(max_num_seqs)
    assert len(indices) == max_num_seqs + 1
    for size in range(1, max_num_seqs + 1):
        batch = bins[indices[size]]
        assert batch.low <= size <= (batch.high or max_num_seqs)


@pytest.mark.parametrize(
    ("max_num_seqs", "labels"),
    [(1, ["1+"]), (2, ["1", "2+"]), (16, ["1", "2-3", "4-6", "7-12", "13+"])],
)
def test_labels(max_num_seqs: int, labels: list[str]) -> None:
    assert [batch.label for batch in batch_bins(max_num_seqs)] == labels
