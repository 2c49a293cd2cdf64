"""A pass of a drafter of vLLM's V2 runner over tokens that it missed.

Runs in vLLM's workers, before the drafter's own pass of a step. Source: vLLM 0.32.0,
`vllm.v1.worker.gpu.spec_decode`. The pass is eager. It uses the speculator's buffers, which ``propose`` fills
afterwards for the step itself. It also uses the speculator's attention groups, as vLLM does for eager passes
between two graphs. The block tables of the step are put back. Its metadata and its slots stay as they are.

It waits for the device: once for the positions, and once for the hidden states that are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider_engine.idle_drafter.hidden_state_cache import NOTHING, HiddenStateCache
from outrider_engine.idle_drafter.kv_backfill import Run, kept_runs, positions
from outrider_engine.vllm_adapter.kv_only_pass import kv_only_pass

if TYPE_CHECKING:
    from torch import Tensor


class Layout(NamedTuple):
    """Runs of missed tokens as vLLM's kernels take them.

    rows: [tokens] index of the request in the runner's state. owners: [runs] the same.
    places: [tokens] positions.
    starts: [runs + 1] on the device. slots: [groups of the KV cache, tokens].
    """

    rows: Tensor
    owners: Tensor
    places: Tensor
    starts: Tensor
    starts_cpu: NDArray[np.int32]
    slots: Tensor


class Backfill:
    """Passes of one drafter over missed tokens.

    speculator: vLLM's drafter. requests: vLLM's state of all requests on the device.
    kept: the target's hidden states of missed tokens; None for a drafter that reads the text alone.
    """

    def __init__(self, speculator: Any, requests: Any, kept: HiddenStateCache | None) -> None:
        self._vllm_speculator: Any = speculator
        self._vllm_requests: Any = requests
        self._kept = kept

    def catch_up(self, missed: Mapping[str, tuple[int, Sequence[int]]], given: Mapping[str, Any]) -> None:
        """Process missed tokens. missed: see `DrafterOrder`. given: what ``propose`` got for this step."""
        batch = given["input_batch"]
        runs = sorted(self._runs(missed, batch), key=_length)
        if not runs:
            return
        layout, states = self._layout(runs, batch), None
        if self._kept is not None:
            rows = self._kept.rows(layout.slots[self._group])
            if (rows == NOTHING).any():
                runs = sorted(kept_runs(runs, rows != NOTHING), key=_length)
                if not runs:
                    return
                layout = self._layout(runs, batch)
                rows = self._kept.rows(layout.slots[self._group])
            states = self._kept.states(rows)
            if given["aux_hidden_states"]:
                states = self._vllm_speculator.model.combine_hidden_states(states)
        self._run(runs, layout, states)

    def _runs(self, missed: Mapping[str, tuple[int, Sequence[int]]], batch: Any) -> Iterator[Run]:
        """The missed tokens before those of the step, whose first position only the device knows."""
        number = batch.num_reqs
        lengths = batch.query_start_loc[1 : number + 1] - batch.query_start_loc[:number]
        firsts = (batch.seq_lens[:number] - lengths).tolist()
        rows = {name: row for row, name in enumerate(batch.req_ids)}
        for name, (begin, text) in missed.items():
            end = min(begin + len(text), firsts[rows[name]])
            if begin < end:
                yield Run(rows[name], begin, range(begin, end))

    def _layout(self, runs: Sequence[Run], batch: Any) -> Layout:
        import torch

        tables, device = self._vllm_speculator.block_tables, batch.idx_mapping.device
        lengths = [len(run.text) for run in runs]
        starts = np.array([0, *accumulate(lengths)], dtype=np.int32)
        owners = batch.idx_mapping[torch.tensor([run.row for run in runs], device=device)]
        places, on_device = torch.tensor(positions(runs), device=device), torch.tensor(starts, device=device)
        return Layout(
            rows=owners.repeat_interleave(torch.tensor(lengths, device=device), output_size=len(places)),
            owners=owners,
            places=places,
            starts=on_device,
            starts_cpu=starts,
            slots=tables.compute_slot_mappings(
                owners,
                on_device,
                places,
                len(places),
                out=torch.empty(tables.num_kv_cache_groups, len(places), dtype=torch.int64, device=device),
            ),
        )

    def _run(self, runs: Sequence[Run], layout: Layout, states: Tensor | None) -> None:
        from vllm.v1.worker.gpu.attn_utils import build_slot_mappings_by_layer

        speculator, number = self._vllm_speculator, len(layout.places)
        # A drafter that reads states reads the token after the one that they are of.
        ahead = 0 if states is None else 1
        tokens = self._vllm_requests.all_token_ids.gpu[layout.rows, layout.places + ahead]
        slots = build_slot_mappings_by_layer(layout.slots, speculator.kv_cache_config)
        with (
            self._block_tables_of(layout.owners),
            kv_only_pass(speculator.draft_attn_layer_names, speculator.vllm_config),
        ):
            metadata = self._metadata(runs, layout)
            speculator._prepare_eplb_forward(number)
            if states is None:
                speculator._run_model(tokens, layout.places, metadata, slots, None)
            else:
                speculator.input_buffers.input_ids[:number].copy_(tokens)
                speculator.hidden_states[:number].copy_(states)
                speculator.on_prefill_begin(len(runs))
                speculator._run_model(number, metadata, slots, None)

    def _metadata(self, runs: Sequence[Run], layout: Layout) -> Any:
        """Attention metadata of the pass. Its lengths and positions are in the speculator's buffers."""
        import torch
        from vllm.config.compilation import CUDAGraphMode
        from vllm.v1.worker.gpu.cudagraph_utils import BatchExecutionDescriptor

        speculator, number = self._vllm_speculator, len(layout.places)
        ends = torch.tensor([run.end for run in runs], dtype=torch.int32)
        buffers = speculator.input_buffers
        buffers.positions[:number].copy_(layout.places)
        buffers.query_start_loc[: len(runs) + 1].copy_(layout.starts)
        buffers.seq_lens[: len(runs)].copy_(ends)
        speculator.draft_max_seq_len = max(speculator.draft_max_seq_len, int(ends.max()))
        return speculator._build_attn_metadata(
            num_reqs=len(runs),
            batch_desc=BatchExecutionDescriptor(
                cg_mode=CUDAGraphMode.NONE, num_tokens=number, num_reqs=len(runs)
            ),
            query_start_loc_np=layout.starts_cpu,
            seq_lens_cpu_upper_bound=ends,
            step=0,
            slot_mappings=layout.slots,
        )

    @contextmanager
    def _block_tables_of(self, owners: Tensor) -> Iterator[None]:
        """Within, the tables that a pass reads are those of these requests."""
        tables, number = self._vllm_speculator.block_tables, len(owners)
        read = [table[:number] for table in tables.input_block_tables]
        of_step = [table.clone() for table in read]
        for table, stored in zip(read, tables.block_tables, strict=True):
            table.copy_(stored.gpu[owners])
        try:
            yield
        finally:
            for table, before in zip(read, of_step, strict=True):
                table.copy_(before)

    @property
    def _group(self) -> int:
        """Index of the group of the KV cache that holds the drafter's layers."""
        layers = self._vllm_speculator.draft_attn_layer_names
        groups = self._vllm_speculator.kv_cache_config.kv_cache_groups
        return next(index for index, group in enumerate(groups) if layers & set(group.layer_names))


def _length(run: Run) -> int:
    """Some attention backends take requests of one token before longer ones.

    Source: ``split_decodes_and_prefills`` of `vllm.v1.attention.backends.utils`.
    """
    return len(run.text)
