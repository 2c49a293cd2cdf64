"""Step time from a formula, linear in what is in the step."""

from __future__ import annotations

from dataclasses import dataclass

from outrider_twin.load import Load


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
