"""Batch bins 1, 2-3, 4-6, 7-12, 13-24, …: one row of the operator's tables each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


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


def batch_bins(max_num_seqs: int) -> tuple[Bin, ...]:
    """The bins of an engine of at most ``max_num_seqs`` requests."""
    edges = [0, 1]
    while edges[-1] < max_num_seqs:
        edges.append(3 if edges[-1] == 1 else edges[-1] * 2)
    closed = [Bin(below + 1, edge) for below, edge in pairwise(edges)]
    return (*closed[:-1], Bin(closed[-1].low, None))


def bin_indices(max_num_seqs: int) -> tuple[int, ...]:
    """Index of the bin by batch size, [max_num_seqs + 1]; index 0 is never used."""
    indices = [0]
    for index, batch in enumerate(batch_bins(max_num_seqs)):
        high = max_num_seqs if batch.high is None else batch.high
        indices += [index] * (high - batch.low + 1)
    return tuple(indices)
