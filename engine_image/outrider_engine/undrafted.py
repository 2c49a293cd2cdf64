"""Steps in which nothing was drafted are worked as in a launch without a drafter.

Runs in vLLM's workers. Source: vLLM 0.32.0. With a drafter `GPUModelRunner` prepares every step as one that
verifies drafts, and `_sample` gives it to the rejection sampler, which copies the logits of the whole
vocabulary. Without drafts there is nothing to reject: each request has one row of logits, that of its last
token, and the plain sampler, which the other one asks itself, draws the same tokens.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("vllm.outrider")

_ATTACHED = "_outrider_attached"
_BROKEN = "_outrider_prepares_drafts"


def attach_to_sampler() -> None:
    """Wrap what vLLM's runner prepares and samples. More often than once does no harm.

    Raises:
        ImportError, AttributeError: this vLLM samples elsewhere.
    """
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    attach(GPUModelRunner)


def attach(runner: Any) -> None:
    """`attach_to_sampler` on a given class."""
    sample, calculate = runner._sample, runner._calc_spec_decode_metadata
    if not hasattr(sample, _ATTACHED):
        runner._sample = _plain_without_drafts(sample)
        runner._calc_spec_decode_metadata = _unless_undrafted(calculate)


class Undrafted:
    """What vLLM's runner knows of the drafts of a step that has none.

    num_draft_tokens: zeros, by request. logits_indices: of the last token of each request. A drafter may ask
    for more, which vLLM computes then.
    """

    def __init__(self, num_draft_tokens: Any, logits_indices: Any, calculate: Callable[[], Any]) -> None:
        self.num_draft_tokens: list[int] = num_draft_tokens.tolist()
        self.logits_indices = logits_indices
        self._calculate = calculate

    def __getattr__(self, name: str) -> Any:
        self.__dict__.update(vars(self._calculate()))
        return self.__dict__[name]


def _unless_undrafted(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _calc_spec_decode_metadata(self: Any, num_draft_tokens: Any, cu_num_scheduled_tokens: Any) -> Any:
        calculate = functools.partial(original, self, num_draft_tokens, cu_num_scheduled_tokens)
        if hasattr(self, _BROKEN):
            return calculate()
        try:
            plain = not (self.use_async_scheduling or num_draft_tokens.any() or _has_thinking_budgets(self))
            if plain:
                last = self.query_start_loc.gpu[1 : len(num_draft_tokens) + 1] - 1
                return Undrafted(num_draft_tokens, last, calculate)
        except Exception:
            setattr(self, _BROKEN, True)
            logger.exception("outrider: steps without drafts are prepared as those with drafts from now on")
        return calculate()

    return _calc_spec_decode_metadata


def _plain_without_drafts(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _sample(self: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        undrafted = isinstance(spec_decode_metadata, Undrafted)
        return original(self, logits, None if undrafted else spec_decode_metadata)

    setattr(_sample, _ATTACHED, True)
    return _sample


def _has_thinking_budgets(runner: Any) -> bool:
    """They count rows as the rejection sampler asks for them."""
    return getattr(runner.input_batch.sampling_metadata, "thinking_budget_state_holder", None) is not None
