"""How many drafts of each request vLLM's adaptive verification had verified, sent along with a step's result.

Runs in vLLM's workers. Source: vLLM 0.32.0. `AdaptiveVerificationManager` trims drafts on the device, and the
scheduler counts all that it scheduled. The sampler's ``num_rejected`` has, by request, the logits of the
trimmed step less the sampled tokens. So sampled less the bonus token, plus rejected, is verified.
`AsyncOutput` copies the sampled tokens to the host on a stream of its own, and waits for one event behind all
copies. The rejections are copied on that stream before the event, so no step waits for them.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any

from outrider_engine.vllm_adapter.wrapping import wrap
from outrider_protocol.releases import ADAPTIVE_VERIFICATION

logger = logging.getLogger("vllm.outrider")

VERIFIED = "outrider_verified"
"""Attribute of a model runner's output: verified drafts of each request, in the order of its ``req_ids``."""

_REJECTED = "_outrider_rejected"
"""Attribute of an output that is being copied: rejected drafts of each request, on the host."""


def verifies_adaptively(config: Any) -> bool:
    """Whether vLLM was launched with adaptive verification. Releases before 0.28 have no such field."""
    speculation = getattr(config, "speculative_config", None)
    return bool(getattr(speculation, ADAPTIVE_VERIFICATION, False))


def attach_to_outputs() -> None:
    """Have the outputs of vLLM's V2 runner carry the verified drafts. Repeated calls have no effect.

    Raises:
        ImportError, AttributeError: this vLLM copies its outputs elsewhere.
    """
    from vllm.v1.worker.gpu.async_utils import AsyncOutput, async_copy_to_np, stream

    def copied(given: Any) -> Any:
        with stream(given["copy_stream"], given["main_stream"]):
            given["copy_stream"].wait_stream(given["main_stream"])
            return async_copy_to_np(given["sampler_output"].num_rejected)

    attach(AsyncOutput, copied)


def attach(output: Any, copied: Callable[[Any], Any]) -> None:
    """`attach_to_outputs` on a given class.

    copied: begins to copy the rejections to the host, given the arguments of the class by name.
    """
    wrap(output, "__init__", lambda original: _copying(original, copied))
    wrap(output, "get_output", _with_verified)


def verified_by_request(sampled: Sequence[int], rejected: Sequence[int]) -> list[int]:
    """Verified drafts of each request. The bonus token of a request was not drafted."""
    return [max(tokens - 1, 0) + drafts for tokens, drafts in zip(sampled, rejected, strict=True)]


def _copying(original: Callable[..., None], copied: Callable[[Any], Any]) -> Callable[..., None]:
    names = list(inspect.signature(original).parameters)[1:]

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            setattr(self, _REJECTED, copied(dict(zip(names, args, strict=False)) | kwargs))
        except Exception:
            logger.exception("outrider: trimmed drafts cannot be counted; the engine continues to serve")
        original(self, *args, **kwargs)

    return init


def _with_verified(original: Callable[..., Any]) -> Callable[..., Any]:
    def get_output(self: Any) -> Any:
        output = original(self)
        rejected = getattr(self, _REJECTED, None)
        # Without the attribute the scheduler reports that trimmed drafts are not counted.
        if rejected is not None:
            sampled = self.num_sampled_tokens_np.tolist()
            setattr(output, VERIFIED, verified_by_request(sampled, rejected.tolist()))
        return output

    return get_output
