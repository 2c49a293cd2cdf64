"""What one engine step computes, as far as its time depends on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Load:
    """One step.

    k: draft tokens that are proposed for each request.
    decoding: requests that get at least one token.
    requests: all of them, with those of which only a part of the prompt is computed.
    tokens: all that go through the target: one per decoding request, its drafts, and prompt tokens.
    prompt_tokens: those of prompts, and of what is computed again after a preemption.
    kv_tokens: in the cache of all requests, before the step.
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
    """How long an engine takes for a step."""

    def seconds(self, load: Load) -> float:
        """Above 0."""
        ...
