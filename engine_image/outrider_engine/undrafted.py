"""Steps in which nothing was drafted are sampled as a launch without a drafter samples them.

Runs in vLLM's workers. Source: vLLM 0.32.0. With a drafter `GPUModelRunner._sample` gives every step to the
rejection sampler, which copies the logits of the whole vocabulary. Without drafts there is nothing to reject,
and the plain sampler, which it asks itself, draws the same tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_ATTACHED = "_outrider_attached"


def attach_to_sampler() -> None:
    """Wrap the sampling of vLLM's runner. More often than once does no harm.

    Raises:
        ImportError, AttributeError: this vLLM samples elsewhere.
    """
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    attach(GPUModelRunner)


def attach(runner: Any) -> None:
    """`attach_to_sampler` on a given class."""
    original = runner._sample
    if not hasattr(original, _ATTACHED):
        runner._sample = _plain_without_drafts(original)


def _plain_without_drafts(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _sample(self: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        plain = (
            spec_decode_metadata is not None
            and not self.use_async_scheduling  # no processor runs vLLM that way, so nobody tried
            and not any(spec_decode_metadata.num_draft_tokens)
            and not _has_thinking_budgets(self)
        )
        return original(self, logits, None if plain else spec_decode_metadata)

    setattr(_sample, _ATTACHED, True)
    return _sample


def _has_thinking_budgets(runner: Any) -> bool:
    """They count rows as the rejection sampler asks for them."""
    return getattr(runner.input_batch.sampling_metadata, "thinking_budget_state_holder", None) is not None
