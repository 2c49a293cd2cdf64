"""Missed tokens as the inputs of one pass of the drafter.

Source: vLLM 0.32.0, `vllm.v1.spec_decode.llm_base_proposer.SpecDecodeBaseProposer.propose` and
`vllm.v1.attention.backend.CommonAttentionMetadata`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np

from outrider_engine.idle_drafter.hidden_state_cache import NOTHING, HiddenStateCache
from outrider_engine.idle_drafter.kv_backfill import Run, kept_runs, positions, runs_of


def backfill_inputs(
    proposer: Any,
    kept: HiddenStateCache | None,
    missed: Mapping[str, tuple[int, Sequence[int]]],
    rows: Mapping[str, int],
    given: Any,
) -> dict[str, Any] | None:
    """The inputs of ``propose`` for a batch of what was missed, in the place of the step's own tokens.

    kept: hidden states, where the drafter reads them; without them none of their tokens is read.
    missed: see `DrafterOrder`. The token after what a request missed is its first one in this step.
    rows: index in the batch by request.
    given: the inputs of ``propose`` for this step.

    Returns:
        None where nothing can be read.
    """
    import torch

    tokens_of_step, next_tokens = given["target_token_ids"], given["next_token_ids"]
    metadata, device = given["common_attn_metadata"], tokens_of_step.device
    runs = runs_of(missed, rows)
    slots, states = _slots(proposer, runs, metadata), given["target_hidden_states"]
    if proposer.pass_hidden_states_to_model:
        if kept is None:
            return None
        kept_rows = kept.rows(slots)
        is_kept = kept_rows != NOTHING
        if not is_kept.any():
            return None
        runs, states = list(kept_runs(runs, is_kept)), kept.states(kept_rows[is_kept])
        slots = slots[torch.tensor(is_kept, device=slots.device)]
    lengths = [len(run.text) for run in runs]
    starts = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
    ends = torch.tensor([run.end for run in runs], dtype=torch.int32)
    batch = torch.tensor([run.row for run in runs], device=device)
    tokens = list(chain.from_iterable(run.text for run in runs))
    after = tokens_of_step[metadata.query_start_loc[batch].long()].to(next_tokens.dtype)
    for index, run in enumerate(runs):
        if run.following is not None:
            after[index] = run.following
    return {
        "target_token_ids": torch.tensor(tokens, dtype=tokens_of_step.dtype, device=device),
        "target_positions": torch.tensor(
            positions(runs), dtype=given["target_positions"].dtype, device=device
        ),
        "target_hidden_states": states,
        "next_token_ids": after,
        "token_indices_to_sample": None,
        "sampling_metadata": given["sampling_metadata"],
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


def _slots(proposer: Any, runs: Sequence[Run], metadata: Any) -> Any:
    """Slots in the KV cache of the tokens of these runs, in sequence."""
    import torch

    table, size = metadata.block_table_tensor, proposer.block_size
    rows = np.repeat([run.row for run in runs], [len(run.text) for run in runs])
    places = torch.tensor(positions(runs), device=table.device)
    blocks = table[torch.tensor(rows, device=table.device), places // size]
    return blocks.to(metadata.slot_mapping.dtype) * size + places % size
