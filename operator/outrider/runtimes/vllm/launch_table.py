"""The schedule that an engine is launched with.

With Outrider's plugin it makes every candidate K available, no more. A stock engine keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence

from outrider.api.drafting import MAX_BATCH_SIZE
from outrider_protocol.schedule import Schedule

Range = list[int]
"""First batch size, last batch size (inclusive), K."""


def launch_table(candidates: Sequence[int], max_num_seqs: int) -> list[Range]:
    """vLLM's ``num_speculative_tokens_per_batch_size`` with each K once, the largest on the widest range.

    CUDA graphs are captured for the K of this schedule only, and the graph of the largest batch that has a K
    fits it exactly. So the smaller ones sit on the largest batch sizes, falling, one each. The plugin puts
    the static schedule in its place before the first request.

    max_num_seqs: no more than the engine's own, else a K has no graphs. Above it the last row holds.

    Raises:
        ValueError: there are more candidates than batch sizes.
    """
    falling = sorted(candidates, reverse=True)
    first_narrow = max_num_seqs - len(falling) + 2
    if first_narrow < 2:
        values = ", ".join(str(k) for k in sorted(candidates))
        raise ValueError(
            f"each candidate ({values}) needs a batch size of its own, and engines run at most "
            f"{max_num_seqs} requests at a time. Write at most {max_num_seqs} values in "
            "spec.speculation.candidates, or raise max-num-seqs or max-num-batched-tokens in spec.engine.args"
        )
    widest: Range = [1, first_narrow - 1, falling[0]]
    narrow = [[size, size, k] for size, k in enumerate(falling[1:], start=first_narrow)]
    return [widest, *narrow]


def stock_table(schedule: Schedule, max_num_seqs: int | None) -> list[Range]:
    """``schedule`` as vLLM's ``num_speculative_tokens_per_batch_size``, up to the largest batch.

    vLLM captures CUDA graphs for every K of it, and looks K up in it for as long as the engine runs.

    max_num_seqs: None where it is left to vLLM, which leaves out what its batches never reach.
    """
    ranges: list[Range] = []
    first, end = 1, max_num_seqs or MAX_BATCH_SIZE
    for row in schedule.merged().rows:
        last = min(row.max_batch_size or end, end)
        if first <= last:
            ranges.append([first, last, row.num_speculative_tokens])
        first = last + 1
    return ranges
