"""The work of one engine step, as far as its time depends on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Load:
    """One step.

    k: draft tokens per request.
    decoding: requests that get at least one token.
    requests: all requests, also those with a part of their prompt only.
    tokens: tokens that the target computes: one per decoding request, its drafts, and prompt tokens.
    prompt_tokens: tokens of prompts, and tokens that are computed again after a preemption.
    kv_tokens: tokens in the cache of all requests, before the step.
    """

    k: int
    decoding: int
    requests: int
    tokens: int
    prompt_tokens: int
    kv_tokens: int

    def with_k(self, k: int) -> Load:
        """The same step with drafts of another length."""
        return replace(self, k=k)


class Timing(Protocol):
    """Step times of an engine."""

    def seconds(self, load: Load) -> float:
        """Step time, above 0."""
        ...
