"""The drafter's side of `drafter_skip`: skips a pass, or processes missed tokens.

Runs in vLLM's workers. Source: vLLM 0.32.0. `GPUModelRunner.propose_draft_token_ids` has the scheduler's
output, which carries the order. It prepares the drafter's inputs and calls its ``propose``. With K=0 that is
one pass over the given tokens, for the drafter's KV cache, without a draft. So it also serves to catch up.
With asynchronous scheduling the runner always needs what it prepares. EAGLE's drafters also get the target's
hidden states of these tokens, which are kept when a pass is skipped.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outrider_engine.idle_drafter.drafter_skip import Order
from outrider_engine.idle_drafter.hidden_state_cache import KeptStates
from outrider_engine.idle_drafter.kv_backfill import missed_inputs
from outrider_engine.idle_drafter.kv_only_pass import ending_as_read

logger = logging.getLogger("vllm.outrider")

ORDER = "outrider_order"
"""Attribute of the scheduler's output, and of the drafter while it is called."""

_OF_THE_TARGET = "get_mtp_target_hidden_states"
"""A method that some targets have."""

_FOLLOWS = "outrider: the drafter cannot be skipped or catch up; it runs in every step now"
"""From here on. It drafts badly for some requests until they end."""

_BROKEN = "_outrider_broken"
_KEPT = "_outrider_kept"
_ATTACHED = "_outrider_attached"


def attach_to_drafter() -> None:
    """Wrap vLLM's runner and its drafters. Repeated calls have no effect.

    Raises:
        ImportError, AttributeError: this vLLM lacks a class or method that the plugin needs.
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
        prepares = order.missed or self.use_async_scheduling or hasattr(drafter, _BROKEN)
        if order.skip and not prepares:
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
    """Drafts of no request, before the runner prepares any inputs for them."""
    if runner.drafter.pass_hidden_states_to_model:
        _keep(runner.drafter, _layers(runner, hidden_states, aux_hidden_states), common_attn_metadata)
    return []


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
                if order.missed:
                    _read(original, self, order, rows, **kwargs)
                if order.skip:
                    if self.pass_hidden_states_to_model:
                        _keep(self, [kwargs["target_hidden_states"]], kwargs["common_attn_metadata"])
                    return _no_drafts(self, **kwargs)
            except Exception:
                setattr(self, _BROKEN, True)
                logger.exception(_FOLLOWS)
        return original(self, num_speculative_tokens, *args, **kwargs)

    setattr(propose, _ATTACHED, True)
    return propose


def _read(
    original: Callable[..., Any], drafter: Any, order: Order, rows: Mapping[str, int], **kwargs: Any
) -> None:
    missed = missed_inputs(drafter, getattr(drafter, _KEPT, None), order.missed, rows, **kwargs)
    if missed is not None:
        with ending_as_read(drafter):
            original(drafter, 0, **missed)


def _no_drafts(drafter: Any, *, common_attn_metadata: Any, next_token_ids: Any, **_: Any) -> Any:
    """What ``propose`` answers with K=0."""
    import torch

    drafter.num_speculative_tokens, drafter._last_draft_probs = 0, None
    return torch.empty(common_attn_metadata.batch_size(), 0, device=next_token_ids.device, dtype=torch.int64)


def _keep(drafter: Any, layers: Sequence[Any], common_attn_metadata: Any) -> None:
    """What the drafter will need of this step once it reads it. layers: longer than the step, if padded."""
    kept: KeptStates | None = getattr(drafter, _KEPT, None)
    if kept is None:
        kept = KeptStates()
        setattr(drafter, _KEPT, kept)
    tokens: int = common_attn_metadata.num_actual_tokens
    # To take a part of a tensor costs as much as to copy it.
    slots = common_attn_metadata.slot_mapping
    if len(slots) != tokens:
        slots = slots[:tokens]
    if len(layers[0]) != tokens:
        layers = [layer[:tokens] for layer in layers]
    kept.keep(slots, layers)
