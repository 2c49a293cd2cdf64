"""Parameters of adaptive verification and of the drafter that it relies on."""

from __future__ import annotations

from dataclasses import dataclass

PROFILE_CONTEXT = 8192.0
"""Tokens per request at which vLLM measures costs: VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN."""
SEPARATION = 0.865
"""Source: vllm-project/vllm, issue 51303, comment of 2026-08-30: a DFlash2 head, held out, all positions."""


@dataclass(frozen=True, slots=True)
class AdaptiveVerification:
    """`enable_adaptive_verification` of an engine.

    separation: probability that the drafter rates an accepted draft above a rejected one (AUC).
    0.5: all drafts of a request and position look alike.
    """

    separation: float = SEPARATION
    profile_context: float = PROFILE_CONTEXT
