"""Faults on command, and the step in which they occur."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from outrider_twin.step_time import Load


class Kind(StrEnum):
    """Outcome of a step."""

    CRASH = "crash"
    """It raises an error, like an assertion in a drafter. vLLM ends."""
    HANG = "hang"
    """It never ends."""
    DIE = "die"
    """The system kills the engine core's process in it, without a message."""
    OUT_OF_MEMORY = "out_of_memory"
    """The GPU has no memory left for it."""


class NoStart(StrEnum):
    """Why an engine does not start."""

    OUT_OF_MEMORY = "out_of_memory"
    """The GPU has no memory left when vLLM measures how much a step takes."""
    NO_CACHE = "no_cache"
    """All goes into the weights: vLLM finds no memory for the KV cache."""


class Trigger(BaseModel):
    """Steps in which a fault occurs: where all given conditions hold; without any, the next step.

    k: steps that draft so many tokens. batch: steps of at least so many requests.
    after_steps: from this step on, counted since the engine started.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    k: int | None = Field(default=None, ge=0)
    batch: int | None = Field(default=None, ge=1)
    after_steps: int = Field(default=0, ge=0)

    def hits(self, load: Load, step: int) -> bool:
        """step: number of the step, from 0 on."""
        drafts = self.k is None or load.k == self.k
        return drafts and load.requests >= (self.batch or 0) and step >= self.after_steps


class Faults(BaseModel):
    """All faults of an engine.

    draft_full_length: it drafts the configured number of tokens, whatever K the step has.
    start_seconds: the start takes so much longer. no_start: the start fails, each time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    crash: Trigger | None = None
    hang: Trigger | None = None
    die: Trigger | None = None
    out_of_memory: Trigger | None = None
    draft_full_length: bool = False
    start_seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    no_start: NoStart | None = None

    def strikes(self, load: Load, step: int) -> Kind | None:
        """What becomes of a step; None for an ordinary one."""
        triggers = {
            Kind.DIE: self.die,
            Kind.CRASH: self.crash,
            Kind.OUT_OF_MEMORY: self.out_of_memory,
            Kind.HANG: self.hang,
        }
        return next((kind for kind, found in triggers.items() if found and found.hits(load, step)), None)

    def drafted(self, k: int, configured: int) -> int:
        """How many tokens are really drafted in a step of this K."""
        return configured if self.draft_full_length else k
