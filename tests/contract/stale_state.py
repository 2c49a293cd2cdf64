"""A plugin for vLLM, for one test: answers are wrong in a step without drafts after one that accepted some.

As recurrent targets are on vLLM before 0.32, which read a stale state there. See `helper_plugins`.
"""

from __future__ import annotations

from typing import Any

NAME = "stale_state"

_ACCEPTED = "_stale_state_accepted"


def register() -> None:
    """Wrap the sampling of the V1 runner."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    original = GPUModelRunner._sample

    def sample(self: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        drafted = spec_decode_metadata is not None and any(spec_decode_metadata.num_draft_tokens)
        if not drafted and getattr(self, _ACCEPTED, False):
            logits = logits.roll(1, dims=-1)
        output = original(self, logits, spec_decode_metadata)
        accepted = (output.sampled_token_ids != -1).sum(dim=-1) > 1
        setattr(self, _ACCEPTED, drafted and bool(accepted.any()))
        return output

    GPUModelRunner._sample = sample
