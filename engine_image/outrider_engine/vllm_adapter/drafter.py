"""Has a worker's drafter obey the orders of `drafter_skip`: it skips a pass, or processes missed tokens.

Runs in vLLM's workers. Source: vLLM 0.32.0. `GPUModelRunner.propose_draft_token_ids` has the scheduler's
output, which carries the order. It prepares the drafter's inputs and calls its ``propose``. With K=0 that is
one pass over the given tokens, for the drafter's KV cache, without a draft. So it also serves to catch up.
With asynchronous scheduling the runner always needs what it prepares. EAGLE's drafters also get the target's
hidden states of these tokens, which are kept when a pass is skipped.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outrider_engine.idle_drafter.drafter_skip import DrafterOrder
from outrider_engine.idle_drafter.hidden_state_cache import HiddenStateCache
from outrider_engine.vllm_adapter.backfill_inputs import backfill_inputs
from outrider_engine.vllm_adapter.drafter_fault import fault_of, reporting
from outrider_engine.vllm_adapter.kv_only_pass import kv_only_pass
from outrider_engine.vllm_adapter.scheduler import ORDER
from outrider_engine.vllm_adapter.wrapping import wrap

_OF_THE_TARGET = "get_mtp_target_hidden_states"
"""A method that some targets have."""

_OURS = "_outrider"


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
    wrap(runner, "propose_draft_token_ids", _with_order)
    wrap(runner, "sample_tokens", reporting(_fault_in))
    wrap(proposer, "propose", _obeying)


class Drafter:
    """One drafter of vLLM's V1 runner, with what the plugin keeps for it.

    order: the one in force during a call, with the index in the batch by request.
    fault: why it cannot skip a pass or catch up, so that it runs in every step. Until they end, it drafts
        badly for some requests.
    """

    def __init__(self, proposer: Any) -> None:
        self._vllm_proposer: Any = proposer
        self._kept: HiddenStateCache | None = None
        self.order: tuple[DrafterOrder, Mapping[str, int]] | None = None
        self.fault: str | None = None

    @classmethod
    def of(cls, proposer: Any) -> Drafter:
        """The one of a proposer of vLLM, on which it is stored."""
        drafter: Drafter | None = getattr(proposer, _OURS, None)
        if drafter is None:
            drafter = cls(proposer)
            setattr(proposer, _OURS, drafter)
        return drafter

    def skip(self, runner: Any, given: Any) -> list[list[int]]:
        """Drafts of no request, before the runner prepares any inputs for them."""
        if self._vllm_proposer.pass_hidden_states_to_model:
            layers = _layers(runner, given["hidden_states"], given["aux_hidden_states"])
            self.keep(layers, given["common_attn_metadata"])
        return []

    def catch_up(
        self,
        propose: Callable[..., Any],
        order: DrafterOrder,
        rows: Mapping[str, int],
        given: Any,
    ) -> None:
        """Process missed tokens in a pass of their own. given: what ``propose`` got for this step."""
        inputs = backfill_inputs(self._vllm_proposer, self._kept, order.missed, rows, given)
        if inputs is not None:
            proposer = self._vllm_proposer
            with kv_only_pass(proposer._draft_attn_layer_names, proposer.vllm_config):
                propose(proposer, 0, **inputs)

    def skip_prepared(self, given: Any) -> Any:
        """What ``propose`` answers with K=0, without its pass."""
        if self._vllm_proposer.pass_hidden_states_to_model:
            self.keep([given["target_hidden_states"]], given["common_attn_metadata"])
        self._vllm_proposer.num_speculative_tokens, self._vllm_proposer._last_draft_probs = 0, None
        return _no_drafts(given["common_attn_metadata"], given["next_token_ids"])

    def keep(self, layers: Sequence[Any], common_attn_metadata: Any) -> None:
        """Keep the hidden states of this step. layers: longer than the step, if padded."""
        if self._kept is None:
            self._kept = HiddenStateCache()
        tokens: int = common_attn_metadata.num_actual_tokens
        # To take a part of a tensor costs as much as to copy it.
        slots = common_attn_metadata.slot_mapping
        if len(slots) != tokens:
            slots = slots[:tokens]
        if len(layers[0]) != tokens:
            layers = [layer[:tokens] for layer in layers]
        self._kept.keep(slots, layers)


def _with_order(original: Callable[..., Any]) -> Callable[..., Any]:
    names = list(inspect.signature(original).parameters)[2:]

    def propose_draft_token_ids(self: Any, scheduler_output: Any, *args: Any) -> Any:
        order: DrafterOrder | None = getattr(scheduler_output, ORDER, None)
        if order is None:
            return original(self, scheduler_output, *args)
        drafter = Drafter.of(self.drafter)
        prepares = order.missed or self.use_async_scheduling or drafter.fault is not None
        if order.skip and not prepares:
            try:
                return drafter.skip(self, dict(zip(names, args, strict=True)))
            except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
                drafter.fault = fault_of(error)
        drafter.order = order, self.input_batch.req_id_to_index
        try:
            return original(self, scheduler_output, *args)
        finally:
            drafter.order = None

    return propose_draft_token_ids


def _obeying(original: Callable[..., Any]) -> Callable[..., Any]:
    def propose(self: Any, num_speculative_tokens: int, *args: Any, **kwargs: Any) -> Any:
        drafter: Drafter | None = getattr(self, _OURS, None)
        if drafter is not None and drafter.order is not None and drafter.fault is None:
            order, rows = drafter.order
            try:
                if order.missed:
                    drafter.catch_up(original, order, rows, kwargs)
                if order.skip:
                    return drafter.skip_prepared(kwargs)
            except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
                drafter.fault = fault_of(error)
        return original(self, num_speculative_tokens, *args, **kwargs)

    return propose


def _fault_in(runner: Any) -> str | None:
    drafter: Drafter | None = getattr(getattr(runner, "drafter", None), _OURS, None)
    return None if drafter is None else drafter.fault


def _layers(runner: Any, hidden_states: Any, aux_hidden_states: Any) -> Sequence[Any]:
    """What the runner gives the drafter of the target's hidden states, by layer. Each [tokens, features]"""
    if runner.use_aux_hidden_state_outputs:
        layers: Sequence[Any] = aux_hidden_states
        return layers
    of_the_target = getattr(runner.get_model(), _OF_THE_TARGET, None)
    states = None if of_the_target is None else of_the_target()
    return [hidden_states if states is None else states]


def _no_drafts(common_attn_metadata: Any, next_token_ids: Any) -> Any:
    import torch

    return torch.empty(common_attn_metadata.batch_size(), 0, device=next_token_ids.device, dtype=torch.int64)
