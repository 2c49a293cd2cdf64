"""Step time from a formula, linear in what is in the step."""

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


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one step.

    T = fixed + per_kv_token kv + per_token tokens
        + K (draft_fixed + draft_per_kv_token kv + draft_per_token requests)

    idle_tax: relative; by so much longer takes a step with K=0 where a drafter is loaded.
    """

    fixed: float  # weights and launch
    per_kv_token: float
    per_token: float
    draft_fixed: float = 0.0  # per drafted position
    draft_per_kv_token: float = 0.0
    draft_per_token: float = 0.0
    idle_tax: float = 0.0

    def seconds(self, load: Load) -> float:
        """See `Timing`."""
        target = self.fixed + self.per_kv_token * load.kv_tokens + self.per_token * load.tokens
        if load.k == 0:
            return target * (1.0 + self.idle_tax)
        draft = self.draft_fixed + self.draft_per_kv_token * load.kv_tokens
        return target + load.k * (draft + self.draft_per_token * load.requests)
