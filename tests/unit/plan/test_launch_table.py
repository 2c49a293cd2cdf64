from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.runtimes.runtime import Args
from outrider.runtimes.vllm.launch_table import launch_table
from outrider.runtimes.vllm.limits import batch_on_every_machine, default_max_num_seqs

candidates = st.lists(st.integers(0, 32), min_size=1, max_size=8, unique=True).map(sorted)


def test_small_lengths_sit_on_the_largest_batch_sizes() -> None:
    assert launch_table((0, 1, 3), 64) == [[1, 62, 3], [63, 63, 1], [64, 64, 0]]


@pytest.mark.parametrize(
    ("args", "largest"),
    [
        ({}, 128),
        ({"max-num-seqs": 64}, 64),
        ({"max-num-batched-tokens": 32}, 32),
        ({"max-num-batched-tokens": "8k"}, 128),
        ({"max-num-batched-tokens": 32, "max-num-seqs": 16}, 16),
    ],
)
def test_every_length_sits_where_any_engine_of_the_launch_can_come(args: Args, largest: int) -> None:
    """A table beyond the largest batch loses the lengths that sit there, and their graphs."""
    assert batch_on_every_machine(args) == largest


@pytest.mark.parametrize(
    ("gpu", "gib", "largest"),
    [("H100", 79.6, 1024), ("A40", 45, 256), ("A100-80GB", 80, 256), ("GB10", 120, 256), ("B200", 180, 1024)],
)
def test_the_largest_batch_by_default_is_that_of_the_gpu(gpu: str, gib: float, largest: int) -> None:
    assert default_max_num_seqs(gpu, gib * 2**30) == largest


def test_one_length_fills_the_table() -> None:
    assert launch_table((4,), 16) == [[1, 16, 4]]


def test_as_many_lengths_as_batch_sizes_fit() -> None:
    assert launch_table((0, 2), 2) == [[1, 1, 2], [2, 2, 0]]


def test_more_lengths_than_batch_sizes_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"candidate \(0, 1, 2\) .* at most 2 values in spec.speculation.candidates"
    ):
        launch_table((0, 1, 2), 2)


@settings(max_examples=50)
@given(lengths=candidates, spare=st.integers(0, 500))
def test_every_length_is_named_once_and_the_table_covers_every_batch_size(
    lengths: list[int], spare: int
) -> None:
    limit = len(lengths) + spare
    table = launch_table(lengths, limit)
    assert sorted(k for _, _, k in table) == lengths
    assert [size for first, last, _ in table for size in range(first, last + 1)] == list(range(1, limit + 1))


@settings(max_examples=50)
@given(lengths=candidates, spare=st.integers(0, 500))
def test_the_largest_length_is_the_widest(lengths: list[int], spare: int) -> None:
    table = launch_table(lengths, len(lengths) + spare)
    widths = {k: last - first for first, last, k in table}
    assert widths[max(lengths)] == max(widths.values())
