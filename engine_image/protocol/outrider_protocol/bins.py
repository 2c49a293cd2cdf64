"""Bins of batch sizes: 1, 2-3, 4-6, 7-12, 13-24, …; the tuner has one row of its tables for each.

Each bin is twice as wide as the one before. Powers of two, which are usual numbers of streams, are inside a
bin and not on its edge. So small changes of load stay in one bin.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bin:
    """Batch sizes from ``low`` to ``high``, both inclusive; the last bin is open (``high`` is None)."""

    low: int
    high: int | None

    @property
    def label(self) -> str:
        """``1``, ``2-3``, … and ``13+`` for the open one."""
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


def geometric_bins(max_batch_size: int) -> tuple[int, ...]:
    """Return inclusive upper edges of the bins, up to the first edge >= the maximum."""
    edges = [1]
    while edges[-1] < max_batch_size:
        edges.append(3 if edges[-1] == 1 else edges[-1] * 2)
    return tuple(edges)


def bin_of(batch_size: float, edges: Sequence[int]) -> int:
    """Return the index of a batch size's bin. A mean is rounded, because engines count requests.

    edges: inclusive upper edges; the last bin is open.
    """
    return min(bisect_left(edges, round(batch_size)), len(edges) - 1)


def bin_low(index: int, edges: Sequence[int]) -> int:
    """Return the smallest batch size of a bin."""
    return 1 if index == 0 else edges[index - 1] + 1


def batch_bins(max_num_seqs: int) -> tuple[Bin, ...]:
    """The bins of an engine of at most ``max_num_seqs`` requests."""
    edges = geometric_bins(max_num_seqs)
    last = len(edges) - 1
    return tuple(Bin(bin_low(i, edges), None if i == last else edge) for i, edge in enumerate(edges))
