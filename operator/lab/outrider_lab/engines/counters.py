"""What a simulated engine counts, as vLLM and the plugin do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from outrider_lab.engines.windows import low_of
from outrider_lab.latency import gap_bin

MAX_POSITIONS = 16
"""Longest draft that can be counted."""


@dataclass(slots=True)
class CellSums:
    """Sums of one (batch bin, K)."""

    steps: float = 0.0
    seconds: float = 0.0
    requests: float = 0.0
    emitted: float = 0.0
    drafts: float = 0.0
    prefill: float = 0.0
    context: float = 0.0
    accepted: list[float] = field(default_factory=lambda: [0.0] * MAX_POSITIONS)

    def copy(self) -> CellSums:
        """As it stands."""
        return replace(self, accepted=list(self.accepted))

    def minus(self, before: CellSums) -> CellSums:
        """What was added since."""
        return CellSums(
            self.steps - before.steps,
            self.seconds - before.seconds,
            self.requests - before.requests,
            self.emitted - before.emitted,
            self.drafts - before.drafts,
            self.prefill - before.prefill,
            self.context - before.context,
            [after - old for after, old in zip(self.accepted, before.accepted, strict=True)],
        )


@dataclass(slots=True)
class Counters:
    """Cumulative, of one pod."""

    engine_steps: float = 0.0
    request_steps: float = 0.0
    decode_seconds: float = 0.0
    first_tokens: float = 0.0
    generated: float = 0.0
    prefill: float = 0.0
    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted_tokens: float = 0.0
    accepted: list[float] = field(default_factory=lambda: [0.0] * MAX_POSITIONS)
    cells: dict[tuple[int, int], CellSums] = field(default_factory=dict)
    gaps: dict[int, float] = field(default_factory=dict)  # request-steps by the bin of their length

    def copy(self) -> Counters:
        """As they stand."""
        cells = {key: sums.copy() for key, sums in self.cells.items()}
        return replace(self, accepted=list(self.accepted), cells=cells, gaps=dict(self.gaps))


@dataclass(slots=True)
class Block:
    """Equal steps, one after another."""

    steps: int
    seconds: float
    scheduled: int  # requests per step, prompts included
    decoding: int  # of these in decode
    k: int
    emitted: float  # tokens, first ones included
    first: int  # prompts that were finished
    prefill: float  # prompt tokens
    context: float  # tokens in the cache, summed over steps
    accepted: Sequence[float]  # by position


def count(counters: Counters, block: Block, edges: Sequence[int]) -> None:
    """Add a block. Steps without any output token do not count in vLLM's own steps."""
    request_steps = float(block.steps * block.decoding)
    if request_steps > 0 or block.first:
        counters.engine_steps += block.steps
    counters.request_steps += request_steps
    counters.decode_seconds += block.seconds * block.decoding
    gap = gap_bin(block.seconds / block.steps)
    counters.gaps[gap] = counters.gaps.get(gap, 0.0) + request_steps
    counters.first_tokens += block.first
    counters.generated += block.emitted
    counters.prefill += block.prefill
    key = (low_of(block.scheduled, edges), block.k)
    cell = counters.cells.get(key)
    if cell is None:
        cell = counters.cells[key] = CellSums()
    cell.steps += block.steps
    cell.seconds += block.seconds
    cell.requests += block.steps * block.scheduled
    cell.emitted += block.emitted
    cell.prefill += block.prefill
    cell.context += block.context
    if block.k > 0 and request_steps > 0:
        counters.drafts += request_steps
        counters.draft_tokens += request_steps * block.k
        cell.drafts += request_steps
        for position, value in enumerate(block.accepted):
            counters.accepted[position] += value
            counters.accepted_tokens += value
            cell.accepted[position] += value
