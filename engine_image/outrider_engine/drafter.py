"""The drafter's side of `outrider_engine.following`: skips a pass, or reads what was missed.

Runs in vLLM's workers. Source: vLLM 0.32.0. `GPUModelRunner.propose_draft_token_ids` has the scheduler's
output, with which the order travels, and calls the drafter's ``propose``. With K=0 that is one pass over
the given tokens, for the sake of the drafter's KV cache, and no draft: so it serves to catch up, too.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

from outrider_engine.following import Order

logger = logging.getLogger("vllm.outrider")

ORDER = "outrider_order"
"""Attribute of the scheduler's output, and of the drafter while it is called."""

_BROKEN = "_outrider_broken"
_ATTACHED = "_outrider_attached"


def attach_to_workers() -> None:
    """Attach to the drafter as soon as a worker is made: its modules are not for every process.

    Raises:
        ImportError, AttributeError: this vLLM lacks a class or method that the plugin stands on.
    """
    from vllm.v1.worker.worker_base import WorkerBase

    original = WorkerBase.__init__
    if hasattr(original, _ATTACHED):
        return

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            attach_to_drafter()
        except Exception:
            logger.exception("outrider: the drafter follows every step; serving goes on")
        original(self, *args, **kwargs)

    setattr(init, _ATTACHED, True)
    WorkerBase.__init__ = init


def attach_to_drafter() -> None:
    """Wrap vLLM's runner and its drafters. More often than once does no harm."""
    from vllm.v1.spec_decode.llm_base_proposer import SpecDecodeBaseProposer
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    attach(GPUModelRunner, SpecDecodeBaseProposer)


def attach(runner: Any, proposer: Any) -> None:
    """`attach_to_drafter` on given classes."""
    if hasattr(proposer.propose, _ATTACHED):
        return
    runner.propose_draft_token_ids = _with_order(runner.propose_draft_token_ids)
    proposer.propose = _obeying(proposer.propose)


def _with_order(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def propose_draft_token_ids(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        order: Order | None = getattr(scheduler_output, ORDER, None)
        if order is None:
            return original(self, scheduler_output, *args, **kwargs)
        drafter = self.drafter
        setattr(drafter, ORDER, (order, self.input_batch.req_id_to_index))
        try:
            return original(self, scheduler_output, *args, **kwargs)
        finally:
            setattr(drafter, ORDER, None)

    return propose_draft_token_ids


def _obeying(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def propose(self: Any, num_speculative_tokens: int, *args: Any, **kwargs: Any) -> Any:
        given: tuple[Order, Mapping[str, int]] | None = getattr(self, ORDER, None)
        if given is not None and not hasattr(self, _BROKEN):
            order, rows = given
            try:
                if order.skip:
                    return _no_drafts(self, **kwargs)
                original(self, 0, **_missed_inputs(order, rows, **kwargs))
            except Exception:
                # It follows every step from here on, and knows some requests badly until they end.
                setattr(self, _BROKEN, True)
                logger.exception("outrider: the drafter could not catch up; it follows every step now")
        return original(self, num_speculative_tokens, *args, **kwargs)

    setattr(propose, _ATTACHED, True)
    return propose


def _no_drafts(drafter: Any, *, common_attn_metadata: Any, next_token_ids: Any, **_: Any) -> Any:
    """What ``propose`` answers with K=0."""
    import torch

    drafter.num_speculative_tokens, drafter._last_draft_probs = 0, None
    return torch.empty(common_attn_metadata.batch_size(), 0, device=next_token_ids.device, dtype=torch.int64)


def _missed_inputs(
    order: Order,
    rows: Mapping[str, int],
    *,
    target_token_ids: Any,
    target_positions: Any,
    target_hidden_states: Any,
    next_token_ids: Any,
    common_attn_metadata: Any,
    sampling_metadata: Any,
    **_: Any,
) -> dict[str, Any]:
    """The inputs of ``propose`` for a batch of what was missed, in the place of the step's own tokens.

    rows: index in the batch by request. The token after what a request missed is its first one in this step.
    """
    import torch

    device, metadata = target_token_ids.device, common_attn_metadata
    parts = [(rows[name], begin, text) for name, (begin, text) in order.missed.items()]
    lengths = [len(text) for _, _, text in parts]
    positions = [begin + index for _, begin, text in parts for index in range(len(text))]
    starts = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
    ends = torch.tensor([begin + len(text) for _, begin, text in parts], dtype=torch.int32)
    batch = torch.tensor([row for row, _, _ in parts], device=device)
    tokens = torch.tensor([token for _, _, text in parts for token in text], dtype=target_token_ids.dtype)
    first = target_token_ids[metadata.query_start_loc[batch].long()]
    return {
        "target_token_ids": tokens.to(device),
        "target_positions": torch.tensor(positions, dtype=target_positions.dtype, device=device),
        "target_hidden_states": target_hidden_states,
        "next_token_ids": first.to(next_token_ids.dtype),
        "token_indices_to_sample": None,
        "sampling_metadata": sampling_metadata,
        "common_attn_metadata": type(metadata)(
            query_start_loc=starts.to(device),
            query_start_loc_cpu=starts,
            seq_lens=ends.to(device),
            seq_lens_cpu_upper_bound=ends,
            num_reqs=len(parts),
            num_actual_tokens=len(positions),
            max_query_len=max(lengths),
            max_seq_len=int(ends.max()),
            block_table_tensor=metadata.block_table_tensor[batch],
            slot_mapping=torch.empty(len(positions), dtype=metadata.slot_mapping.dtype, device=device),
        ),
    }
