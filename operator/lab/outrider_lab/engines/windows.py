"""Windows for the tuner from the steps of a simulated engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outrider.tuning.observe.window import Cell, Window
from outrider_protocol.bins import bin_low, bin_of


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps of one pod with one batch size and one K, as the engine counted them."""

    batch_size: float
    k: int
    seconds: float  # engine time
    steps: float
    emitted: float  # tokens
    accepted: tuple[float, ...]  # drafted tokens accepted, by position
    prefill: float = 0.0  # prompt tokens
    context: float = 0.0  # tokens in the KV cache, summed over steps


def low_of(batch_size: float, edges: Sequence[int]) -> int:
    """Smallest batch of the bin of a batch. edges: inclusive upper ones; the last bin is open."""
    return bin_low(bin_of(batch_size, edges), edges)


def window_of(
    pod: str, began: float, ended: float, stretches: Sequence[Stretch], edges: Sequence[int]
) -> Window:
    """The stock sums and the exact cells of some stretches."""
    requests = [s.steps * s.batch_size for s in stretches]
    drafting = [(s, r) for s, r in zip(stretches, requests, strict=True) if s.k > 0]
    sizes = [s.batch_size for s in stretches if s.steps > 0]
    accepted = _add(s.accepted for s, _ in drafting)
    return Window(
        pod=pod,
        started_at=began,
        ended_at=ended,
        engine_steps=sum(s.steps for s in stretches),
        request_steps=sum(requests),
        first_tokens=0.0,
        decode_seconds=sum(s.seconds * s.batch_size for s in stretches),
        decode_tokens=sum(s.emitted for s in stretches),
        drafts=sum(r for _, r in drafting),
        draft_tokens=sum(s.k * r for s, r in drafting),
        accepted_tokens=sum(accepted),
        accepted_per_position=accepted,
        prefill_tokens=sum(s.prefill for s in stretches),
        requests_waiting=0.0,
        kv_usage_ratio=0.1,
        batch_low=min(sizes, default=None),
        batch_high=max(sizes, default=None),
        cells=tuple(_cells(stretches, edges)),
    )


def _cells(stretches: Sequence[Stretch], edges: Sequence[int]) -> Iterable[Cell]:
    groups: dict[tuple[int, int], list[Stretch]] = {}
    for s in stretches:
        groups.setdefault((low_of(s.batch_size, edges), s.k), []).append(s)
    for (low, k), rows in sorted(groups.items()):
        requests = sum(s.steps * s.batch_size for s in rows)
        yield Cell(
            low=low,
            num_speculative_tokens=k,
            steps=sum(s.steps for s in rows),
            step_seconds=sum(s.seconds for s in rows),
            requests=requests,
            emitted_tokens=sum(s.emitted for s in rows),
            drafted_per_position=(requests,) * k,
            accepted_per_position=_add(s.accepted for s in rows),
            prefill_tokens=sum(s.prefill for s in rows),
            context_tokens=sum(s.context for s in rows),
        )


def _add(rows: Iterable[tuple[float, ...]]) -> tuple[float, ...]:
    total: list[float] = []
    for row in rows:
        total.extend([0.0] * (len(row) - len(total)))
        for position, value in enumerate(row):
            total[position] += value
    return tuple(total)
