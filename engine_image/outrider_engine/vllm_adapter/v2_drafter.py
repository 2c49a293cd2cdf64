"""Has the drafter of vLLM's V2 runner obey the orders of `drafter_skip`, and a draft model follow K.

Runs in vLLM's workers. Source: vLLM 0.32.0. `GPUModelRunner.execute_model` has the scheduler's output, which
carries the order; `GPUModelRunner.sample_tokens` then calls the speculator's ``propose`` once. An EAGLE head
or an MTP layer processes the step's tokens there also with K=0. A draft model drafts the full length for
every K. The worker has the text and the exact positions on the device, also under asynchronous scheduling. So
an order names positions only.

CUDA graphs: ``propose`` chooses and replays its own graphs inside, so a skipped step replays none of them. A
pass over missed tokens is eager, see `v2_backfill`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outrider_engine.idle_drafter.drafter_skip import DrafterOrder
from outrider_engine.idle_drafter.hidden_state_cache import HiddenStateCache
from outrider_engine.vllm_adapter.drafter_fault import fault_of, reporting
from outrider_engine.vllm_adapter.scheduler import ORDER
from outrider_engine.vllm_adapter.v2_backfill import Backfill
from outrider_engine.vllm_adapter.wrapping import wrap

_OURS = "_outrider"

_NO_DRAFT = -1
"""In the place of a draft token. Source: ``GPUModelRunner.sample_tokens``."""


def attach_to_v2_drafter() -> None:
    """Wrap vLLM's V2 runner and its drafters. Repeated calls have no effect.

    Raises:
        ImportError, AttributeError: this vLLM lacks a class or method that the plugin needs.
    """
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner
    from vllm.v1.worker.gpu.spec_decode.standalone_ar.speculator import StandaloneARSpeculator
    from vllm.v1.worker.gpu.spec_decode.target_dependent_ar.speculator import TargetDependentARSpeculator

    attach(GPUModelRunner, TargetDependentARSpeculator, StandaloneARSpeculator)


def attach(runner: Any, head: Any, draft_model: Any) -> None:
    """`attach_to_v2_drafter` on given classes."""
    wrap(runner, "execute_model", _with_order)
    wrap(runner, "sample_tokens", reporting(_fault_in))
    wrap(head, "propose", lambda original: _obeying(original, reads_states=True))
    wrap(draft_model, "propose", lambda original: _obeying(_following_k(original), reads_states=False))


class V2Drafter:
    """One drafter of vLLM's V2 runner, with what the plugin keeps for it.

    order: of the step that runs, until its drafter is called.
    fault: why it cannot skip a pass or catch up, so that it runs in every step. Until they end, it drafts
        badly for some requests.
    """

    def __init__(self, speculator: Any, requests: Any) -> None:
        self._vllm_speculator: Any = speculator
        self._vllm_requests: Any = requests
        self._kept = HiddenStateCache()
        self.order: DrafterOrder | None = None
        self.fault: str | None = None

    @classmethod
    def of(cls, runner: Any) -> V2Drafter | None:
        """The one of a runner of vLLM, stored on its speculator; None where it has no drafter."""
        speculator = runner.speculator
        if speculator is None:
            return None
        drafter: V2Drafter | None = getattr(speculator, _OURS, None)
        if drafter is None:
            drafter = cls(speculator, runner.req_states)
            setattr(speculator, _OURS, drafter)
        return drafter

    def obey(self, given: Mapping[str, Any], *, reads_states: bool) -> Any | None:
        """Do what the order of this step asks.

        given: the arguments of ``propose``. reads_states: whether it needs the target's hidden states.

        Returns:
            the drafts of a skipped step; None where ``propose`` has to run.
        """
        order, self.order = self.order, None
        if order is None:
            self._kept.clear()
            return None
        if order.missed:
            kept = self._kept if reads_states else None
            Backfill(self._vllm_speculator, self._vllm_requests, kept).catch_up(order.missed, given)
        if order.skip:
            if reads_states:
                self._keep(given)
            # What ``propose`` answers with K=0. [requests, configured K]
            return self._vllm_speculator.draft_tokens[: given["input_batch"].num_reqs].fill_(_NO_DRAFT)
        if not order.behind:
            self._kept.clear()
        return None

    def _keep(self, given: Mapping[str, Any]) -> None:
        """Keep the hidden states of this step."""
        tokens: int = given["input_batch"].num_tokens
        slots = given["slot_mappings"][next(iter(self._vllm_speculator.draft_attn_layer_names))]
        layers: Sequence[Any] = given["aux_hidden_states"] or [given["last_hidden_states"]]
        self._kept.keep(slots[:tokens], [layer[:tokens] for layer in layers])


def _with_order(original: Callable[..., Any]) -> Callable[..., Any]:
    def execute_model(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        drafter = V2Drafter.of(self)
        if drafter is not None:
            drafter.order = getattr(scheduler_output, ORDER, None)
        return original(self, scheduler_output, *args, **kwargs)

    return execute_model


def _fault_in(runner: Any) -> str | None:
    drafter = V2Drafter.of(runner)
    return None if drafter is None else drafter.fault


def _obeying(original: Callable[..., Any], *, reads_states: bool) -> Callable[..., Any]:
    names = list(inspect.signature(original).parameters)[1:]

    def propose(self: Any, *args: Any, **kwargs: Any) -> Any:
        drafter: V2Drafter | None = getattr(self, _OURS, None)
        given = dict(zip(names, args, strict=False)) | kwargs
        if drafter is not None and drafter.fault is None and not given.get("dummy_run"):
            try:
                drafts = drafter.obey(given, reads_states=reads_states)
            except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
                drafter.fault = fault_of(error)
            else:
                if drafts is not None:
                    return drafts
        return original(self, *args, **kwargs)

    return propose


def _following_k(original: Callable[..., Any]) -> Callable[..., Any]:
    """A draft model makes a pass for each draft token of the configured K; here for each of this step's K."""

    def propose(self: Any, input_batch: Any, *args: Any, **kwargs: Any) -> Any:
        configured, k = self.num_speculative_steps, kwargs.get("num_speculative_tokens")
        if k is None or k >= configured:
            return original(self, input_batch, *args, **kwargs)
        # The first pass also writes the KV cache, so it runs with K=0, too.
        self.num_speculative_steps = max(1, k)
        try:
            original(self, input_batch, *args, **kwargs)
        finally:
            self.num_speculative_steps = configured
        return self.draft_tokens[: input_batch.num_reqs]

    return functools.wraps(original)(propose)
