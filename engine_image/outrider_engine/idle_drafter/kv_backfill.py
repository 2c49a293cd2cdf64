"""Missed tokens as the inputs of one pass of the drafter.

Source: vLLM 0.32.0, `vllm.v1.spec_decode.llm_base_proposer.SpecDecodeBaseProposer.propose` and
`vllm.v1.attention.backend.CommonAttentionMetadata`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrider_engine.idle_drafter.hidden_state_cache import NOTHING, KeptStates


@dataclass(frozen=True, slots=True)
class Run:
    """Tokens side by side that one request missed.

    row: the request's index in the batch. following: the token after the last one; None for the first of
    this step.
    """

    row: int
    begin: int
    text: Sequence[int]
    following: int | None = None

    @property
    def end(self) -> int:
        """The position after the last one."""
        return self.begin + len(self.text)


def missed_inputs(
    drafter: Any,
    kept: KeptStates | None,
    missed: Mapping[str, tuple[int, list[int]]],
    rows: Mapping[str, int],
    *,
    target_token_ids: Any,
    target_positions: Any,
    target_hidden_states: Any,
    next_token_ids: Any,
    common_attn_metadata: Any,
    sampling_metadata: Any,
    **_: Any,
) -> dict[str, Any] | None:
    """The inputs of ``propose`` for a batch of what was missed, in the place of the step's own tokens.

    kept: hidden states, where the drafter reads them; without them none of their tokens is read.
    missed: see `drafter_skip.Order`. The token after what a request missed is its first one in
        this step.
    rows: index in the batch by request.

    Returns:
        None where nothing can be read.
    """
    import torch

    device, metadata = target_token_ids.device, common_attn_metadata
    runs = [Run(rows[name], begin, text) for name, (begin, text) in missed.items()]
    slots, states = _slots(drafter, runs, metadata), target_hidden_states
    if drafter.pass_hidden_states_to_model:
        if kept is None:
            return None
        kept_rows = kept.rows(slots)
        is_kept = kept_rows != NOTHING
        if not is_kept.any():
            return None
        runs, states = list(_kept_runs(runs, is_kept)), kept.states(kept_rows[is_kept])
        slots = slots[torch.tensor(is_kept, device=slots.device)]
    lengths = [len(run.text) for run in runs]
    starts = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
    ends = torch.tensor([run.end for run in runs], dtype=torch.int32)
    batch = torch.tensor([run.row for run in runs], device=device)
    tokens = list(chain.from_iterable(run.text for run in runs))
    after = target_token_ids[metadata.query_start_loc[batch].long()].to(next_token_ids.dtype)
    for index, run in enumerate(runs):
        if run.following is not None:
            after[index] = run.following
    return {
        "target_token_ids": torch.tensor(tokens, dtype=target_token_ids.dtype, device=device),
        "target_positions": torch.tensor(_positions(runs), dtype=target_positions.dtype, device=device),
        "target_hidden_states": states,
        "next_token_ids": after,
        "token_indices_to_sample": None,
        "sampling_metadata": sampling_metadata,
        "common_attn_metadata": type(metadata)(
            query_start_loc=starts.to(device),
            query_start_loc_cpu=starts,
            seq_lens=ends.to(device),
            seq_lens_cpu_upper_bound=ends,
            num_reqs=len(runs),
            num_actual_tokens=len(tokens),
            max_query_len=max(lengths),
            max_seq_len=int(ends.max()),
            block_table_tensor=metadata.block_table_tensor[batch],
            slot_mapping=slots,
        ),
    }


def _positions(runs: Sequence[Run]) -> NDArray[np.int64]:
    """Positions of the tokens of these runs, in sequence."""
    return np.concatenate([np.arange(run.begin, run.end) for run in runs])


def _slots(drafter: Any, runs: Sequence[Run], metadata: Any) -> Any:
    """Slots in the KV cache of the tokens of these runs, in sequence."""
    import torch

    table, size = metadata.block_table_tensor, drafter.block_size
    rows = np.repeat([run.row for run in runs], [len(run.text) for run in runs])
    positions = torch.tensor(_positions(runs), device=table.device)
    blocks = table[torch.tensor(rows, device=table.device), positions // size]
    return blocks.to(metadata.slot_mapping.dtype) * size + positions % size


def _kept_runs(runs: Sequence[Run], is_kept: NDArray[np.bool_]) -> Iterator[Run]:
    """These runs without the tokens that were not kept. is_kept: of their tokens, one after the other.

    vLLM skips the drafter in steps in which a request nears the end of its context.
    """
    ends = list(accumulate(len(run.text) for run in runs))
    for run, its in zip(runs, np.split(is_kept, ends[:-1]), strict=True):
        if its.all():
            yield run
        else:
            yield from parts(run, its.tolist())


def parts(run: Run, is_kept: Sequence[bool]) -> Iterator[Run]:
    """The run without the tokens that were not kept."""
    for kept, group in groupby(range(len(is_kept)), key=is_kept.__getitem__):
        if kept:
            indices = list(group)
            first, after = indices[0], indices[-1] + 1
            following = run.text[after] if after < len(run.text) else run.following
            yield Run(run.row, run.begin + first, run.text[first:after], following)
