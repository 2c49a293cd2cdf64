"""Steps in which nothing was drafted are sampled as a launch without a drafter samples them.

Runs in vLLM's workers. Source: vLLM 0.32.0. With a drafter `GPUModelRunner._sample` gives every step to the
rejection sampler, which copies the logits of the whole vocabulary. Without drafts there is nothing to reject,
and the plain sampler, which it asks itself, draws the same tokens. Which logits belong to which draft,
`GPUModelRunner._calc_spec_decode_metadata` computes in a dozen operations for every step. Where each request
computes one token, it depends on their number alone.

vLLM's V2 runner needs no such part. Its `GPUModelRunner.sample` takes the plain sampler for such steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from outrider_engine.vllm_adapter.wrapping import wrap

_KNOWN = "_outrider_undrafted"
"""Attribute of the runner: metadata of steps without drafts, by number of requests."""


def attach_to_sampler() -> None:
    """Wrap the sampling of vLLM's runner. Repeated calls have no effect.

    Raises:
        ImportError, AttributeError: this vLLM samples elsewhere.
    """
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    attach(GPUModelRunner)


def attach(runner: Any) -> None:
    """`attach_to_sampler` on a given class."""
    wrap(runner, "_sample", _plain_without_drafts)
    wrap(runner, "_calc_spec_decode_metadata", _computed_once)


def _plain_without_drafts(original: Callable[..., Any]) -> Callable[..., Any]:
    def _sample(self: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        plain = (
            spec_decode_metadata is not None
            and not self.use_async_scheduling  # no CPU build runs vLLM that way, so it is not tested
            and not any(spec_decode_metadata.num_draft_tokens)
            and not _has_thinking_budgets(self)
        )
        return original(self, logits, None if plain else spec_decode_metadata)

    return _sample


def _has_thinking_budgets(runner: Any) -> bool:
    """They count rows as the rejection sampler asks for them."""
    return getattr(runner.input_batch.sampling_metadata, "thinking_budget_state_holder", None) is not None


def _computed_once(original: Callable[..., Any]) -> Callable[..., Any]:
    def _calc_spec_decode_metadata(self: Any, num_draft_tokens: Any, cu_num_scheduled_tokens: Any) -> Any:
        requests = len(num_draft_tokens)
        # A request computes one token besides its drafts.
        if not requests or cu_num_scheduled_tokens[-1] != requests:
            return original(self, num_draft_tokens, cu_num_scheduled_tokens)
        known: dict[int, Any] = vars(self).setdefault(_KNOWN, {})
        found = known.get(requests)
        if found is None:
            found = known[requests] = original(self, num_draft_tokens, cu_num_scheduled_tokens)
        return found

    return _calc_spec_decode_metadata
