"""The drafter's side of `outrider_engine.following`: skips a pass, or reads what was missed.

Runs in vLLM's workers. Source: vLLM 0.32.0. `GPUModelRunner.propose_draft_token_ids` has the scheduler's
output, with which the order travels, prepares the drafter's inputs and calls its ``propose``. With K=0 that
is one pass over the given tokens, for the sake of the drafter's KV cache, and no draft: so it serves to catch
up, too. With asynchronous scheduling the runner needs what it prepares in any case. EAGLE's drafters get the
target's hidden states of these tokens besides, which are kept as a pass is skipped.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, islice
from typing import Any

from outrider_engine.following import Order
from outrider_engine.kept_states import KeptStates

logger = logging.getLogger("vllm.outrider")

ORDER = "outrider_order"
"""Attribute of the scheduler's output, and of the drafter while it is called."""

_OF_THE_TARGET = "get_mtp_target_hidden_states"
"""A method that some targets have."""

_FOLLOWS = "outrider: the drafter cannot be left out or catch up; it follows every step now"
"""From here on; it knows some requests badly until they end."""

_BROKEN = "_outrider_broken"
_KEPT = "_outrider_kept"
_ATTACHED = "_outrider_attached"


def attach_to_drafter() -> None:
    """Wrap vLLM's runner and its drafters. More often than once does no harm.

    Raises:
        ImportError, AttributeError: this vLLM lacks a class or method that the plugin stands on.
    """
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
    names = list(inspect.signature(original).parameters)[2:]

    @functools.wraps(original)
    def propose_draft_token_ids(self: Any, scheduler_output: Any, *args: Any) -> Any:
        order: Order | None = getattr(scheduler_output, ORDER, None)
        if order is None:
            return original(self, scheduler_output, *args)
        drafter = self.drafter
        if order.skip and not self.use_async_scheduling and not hasattr(drafter, _BROKEN):
            try:
                return _left_out(self, **dict(zip(names, args, strict=True)))
            except Exception:
                setattr(drafter, _BROKEN, True)
                logger.exception(_FOLLOWS)
        setattr(drafter, ORDER, (order, self.input_batch.req_id_to_index))
        try:
            return original(self, scheduler_output, *args)
        finally:
            setattr(drafter, ORDER, None)

    return propose_draft_token_ids


def _left_out(
    runner: Any, *, hidden_states: Any, aux_hidden_states: Any, common_attn_metadata: Any, **_: Any
) -> list[list[int]]:
    """No drafts, by request, before the runner prepares any inputs for them."""
    if runner.drafter.pass_hidden_states_to_model:
        _keep(runner.drafter, _layers(runner, hidden_states, aux_hidden_states), common_attn_metadata)
    return [[] for _ in runner.input_batch.req_ids]


def _layers(runner: Any, hidden_states: Any, aux_hidden_states: Any) -> Sequence[Any]:
    """What the runner gives the drafter of the target's hidden states, by layer. Each [tokens, features]"""
    if runner.use_aux_hidden_state_outputs:
        layers: Sequence[Any] = aux_hidden_states
        return layers
    of_the_target = getattr(runner.get_model(), _OF_THE_TARGET, None)
    states = None if of_the_target is None else of_the_target()
    return [hidden_states if states is None else states]


def _obeying(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def propose(self: Any, num_speculative_tokens: int, *args: Any, **kwargs: Any) -> Any:
        given: tuple[Order, Mapping[str, int]] | None = getattr(self, ORDER, None)
        if given is not None and not hasattr(self, _BROKEN):
            order, rows = given
            try:
                if order.skip:
                    if self.pass_hidden_states_to_model:
                        _keep(self, [kwargs["target_hidden_states"]], kwargs["common_attn_metadata"])
                    return _no_drafts(self, **kwargs)
                if order.missed:
                    original(self, 0, **_missed_inputs(self, order, rows, **kwargs))
            except Exception:
                setattr(self, _BROKEN, True)
                logger.exception(_FOLLOWS)
        return original(self, num_speculative_tokens, *args, **kwargs)

    setattr(propose, _ATTACHED, True)
    return propose


def _no_drafts(drafter: Any, *, common_attn_metadata: Any, next_token_ids: Any, **_: Any) -> Any:
    """What ``propose`` answers with K=0."""
    import torch

    drafter.num_speculative_tokens, drafter._last_draft_probs = 0, None
    return torch.empty(common_attn_metadata.batch_size(), 0, device=next_token_ids.device, dtype=torch.int64)


def _keep(drafter: Any, layers: Sequence[Any], common_attn_metadata: Any) -> None:
    """What the drafter will need of this step once it reads it. layers: longer than the step, if padded."""
    if not hasattr(drafter, _KEPT):
        setattr(drafter, _KEPT, KeptStates())
    tokens: int = common_attn_metadata.num_actual_tokens
    kept: KeptStates = getattr(drafter, _KEPT)
    if len(layers[0]) != tokens:
        layers = [layer[:tokens] for layer in layers]
    kept.keep(common_attn_metadata.slot_mapping[:tokens], layers)


@dataclass(frozen=True, slots=True)
class _Run:
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
        return self.begin + len(self.text)

    @property
    def positions(self) -> range:
        return range(self.begin, self.end)


def _missed_inputs(
    drafter: Any,
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
    runs = [_Run(rows[name], begin, text) for name, (begin, text) in order.missed.items()]
    slots, states = _slots(drafter, runs, metadata), target_hidden_states
    if drafter.pass_hidden_states_to_model:
        runs, slots, states = _of_kept(getattr(drafter, _KEPT), runs, slots)
    lengths = [len(run.text) for run in runs]
    starts = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
    ends = torch.tensor([run.end for run in runs], dtype=torch.int32)
    batch = torch.tensor([run.row for run in runs], device=device)
    positions = [position for run in runs for position in run.positions]
    tokens = torch.tensor([token for run in runs for token in run.text], dtype=target_token_ids.dtype)
    after = target_token_ids[metadata.query_start_loc[batch].long()].to(next_token_ids.dtype)
    for index, run in enumerate(runs):
        if run.following is not None:
            after[index] = run.following
    return {
        "target_token_ids": tokens.to(device),
        "target_positions": torch.tensor(positions, dtype=target_positions.dtype, device=device),
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
            num_actual_tokens=len(positions),
            max_query_len=max(lengths),
            max_seq_len=int(ends.max()),
            block_table_tensor=metadata.block_table_tensor[batch],
            slot_mapping=slots,
        ),
    }


def _slots(drafter: Any, runs: Sequence[_Run], metadata: Any) -> Any:
    """Where the KV cache has the tokens of these runs, one after the other."""
    import torch

    table, size = metadata.block_table_tensor, drafter.block_size
    rows = torch.tensor([run.row for run in runs for _ in run.text], device=table.device)
    positions = torch.tensor([at for run in runs for at in run.positions], device=table.device)
    blocks = table[rows, positions // size].to(metadata.slot_mapping.dtype)
    return blocks * size + positions % size


def _of_kept(kept: KeptStates, runs: Sequence[_Run], slots: Any) -> tuple[list[_Run], Any, Any]:
    """The runs as far as the states of their tokens were kept, with slots and states of these.

    vLLM itself leaves the drafter out of steps in which a request nears the end of its context.
    """
    rows, listed = kept.rows(), iter(slots.tolist())
    own = [list(islice(listed, len(run.text))) for run in runs]
    parts = [
        part
        for run, its in zip(runs, own, strict=True)
        for part in _parts(run, [slot in rows for slot in its])
    ]
    found = [slot for its in own for slot in its if slot in rows]
    return parts, slots.new_tensor(found), kept.states([rows[slot] for slot in found])


def _parts(run: _Run, is_kept: Sequence[bool]) -> Iterator[_Run]:
    """The run without the tokens that were not kept."""
    for kept, group in groupby(range(len(is_kept)), key=is_kept.__getitem__):
        if kept:
            indices = list(group)
            first, after = indices[0], indices[-1] + 1
            following = run.text[after] if after < len(run.text) else run.following
            yield _Run(run.row, run.begin + first, run.text[first:after], following)
