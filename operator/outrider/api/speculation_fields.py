"""``spec.speculation``: method, drafter, the K values, the static schedule and the tuner's mode."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from outrider.api.base import ApiModel
from outrider.api.drafting import (
    MAX_K,
    DrafterSource,
    DraftLength,
    ScheduleRow,
    default_candidates,
    default_schedule,
)
from outrider.api.request_limits import RequestLimits
from outrider.api.speculative_config import SpeculativeConfig
from outrider.api.text import shortened
from outrider.api.tuning import Tuning, TuningMode
from outrider_protocol.methods import (
    TRAITS,
    Method,
    Tunability,
    method_named,
)
from outrider_protocol.schedule import Row, Schedule

SUFFIX_TREE_DEPTH = 24
"""vLLM's limit of suffix decoding. Source: vLLM's SpeculativeConfig."""
_TREE_DEPTH = "suffix_decoding_max_tree_depth"


def _vllms_name(method: object) -> object:
    """Refuse other names of a method in vLLM, its recipes and model cards, with the name to write."""
    meant = method_named(method) if isinstance(method, str) else None
    if meant is not None and meant != method:
        raise ValueError(f"spec.speculation.method: write {meant} for {shortened(str(method), 40)}")
    return method


class Verification(StrEnum):
    """Which draft tokens the engine verifies."""

    FIXED = "Fixed"
    ADAPTIVE = "Adaptive"
    AUTO = "Auto"


class SpeculationFields(ApiModel):
    """The fields of ``spec.speculation``, and what follows from them."""

    method: Annotated[Method, BeforeValidator(_vllms_name)]
    """Method of drafting; docs/reference/methods.md has the engine versions. Write mtp for every prediction
    layer, also for a separate one such as the assistants of Gemma 4. Write draft_model for a separate small
    model."""
    drafter: DrafterSource | None = None
    """The drafter's weights. The method requires or forbids them."""
    num_speculative_tokens: Annotated[int, Field(ge=1, le=MAX_K)] | None = None
    """Maximum K, fixed when an engine starts. Required unless the method is none. Two methods have a default:
    suffix vLLM's limit of 24, and dspark the length of its drafter. Example: 5."""
    candidates: Annotated[list[DraftLength], Field(fail_fast=True, min_length=1, max_length=8)] | None = None
    """The K values that the tuner may use, ascending and with numSpeculativeTokens as the last. Each one
    costs start time and memory. A single value needs mode Off; the engine then has one draft length. Default:
    0, 1, 2, half of the maximum rounded up, and the maximum; with dflash and dspark a quarter in place of 2.
    Example: [0, 1, 3, 5]."""
    schedule: Annotated[list[ScheduleRow], Field(fail_fast=True, min_length=1, max_length=16)] | None = None
    """The static schedule: every engine starts with it, and returns to it without the operator. A change
    restarts pods only with `tuning.actuation: Rollout`. Default: half of numSpeculativeTokens up to batch
    size 8, 1 up to 32, 0 above. With dflash and dspark: all of it up to 4, half up to 32, a quarter up to
    128, 0 above."""
    verification: Verification = Verification.FIXED
    """The draft tokens that vLLM verifies. Fixed (default): all. Adaptive: those that will probably be
    accepted (vLLM's adaptive verification). Adaptive needs a GPU, the V2 runner and an attention backend that
    supports it, such as FlashAttention 3. Auto: Outrider begins with Fixed, and launches one of two or more
    replicas the other way for 15 minutes a day. It relaunches all replicas as the better one. A change
    restarts pods."""
    config: SpeculativeConfig = Field(default_factory=dict)
    """Other keys of vLLM's speculative configuration, under vLLM's names. Examples: `prompt_lookup_max: 8`,
    the drafter's `max_model_len: 4096` and `quantization: fp8`, `draft_sample_method: probabilistic`. A draft
    model of another vocabulary needs `use_heterogeneous_vocab: true`. vLLM checks them at its start.
    Admission refuses keys that other fields set."""
    request_limits: RequestLimits = Field(default_factory=list)
    """K limits for some requests. Of those that a request meets, and the one that it asks for itself, the
    smallest applies. A change reaches running engines within two minutes and restarts nothing."""
    tuning: Tuning = Field(default_factory=Tuning)
    """Tuning of the schedule by the load."""

    @property
    def live(self) -> bool:
        """The engine can change K of this method while it runs."""
        return TRAITS[self.method].tunability is Tunability.LIVE

    @property
    def verifies_adaptively(self) -> bool:
        """vLLM decides in each step how many of the drafted tokens it verifies."""
        return self.verification is Verification.ADAPTIVE

    @property
    def compares_verification(self) -> bool:
        """The tuner compares fixed with adaptive verification."""
        return self.verification is Verification.AUTO

    @property
    def may_verify_adaptively(self) -> bool:
        """Engines verify adaptively, or will if the tuner orders it."""
        return self.verification is not Verification.FIXED

    @property
    def keeps_one_k(self) -> bool:
        """Engines that verify adaptively have the whole K for every batch, unless Outrider tunes K."""
        return self.verifies_adaptively and self.tuning.mode is TuningMode.OFF

    @property
    def own_length(self) -> int | None:
        """K where `numSpeculativeTokens` is left out; None where only the weights have it, or nothing."""
        if self.method is not Method.SUFFIX:
            return None
        limit = self.config.get(_TREE_DEPTH, SUFFIX_TREE_DEPTH)
        return min(limit, MAX_K) if isinstance(limit, int) and limit > 0 else SUFFIX_TREE_DEPTH

    def effective_candidates(self, *, live: bool | None = None) -> tuple[int, ...]:
        """Every K that an engine of this model is launched with, ascending: `candidates`, or its default.

        The one K of an engine that cannot change it; (0,) without speculation.

        ``live``: whether the engine can change K; by default, whether the method allows it.
        """
        ceiling = self.num_speculative_tokens or self.own_length
        if ceiling is None:
            return (0,)
        if not (self.live if live is None else live):
            return (ceiling,)
        if self.candidates is not None:
            return tuple(self.candidates)
        return default_candidates(self.method, ceiling)

    def static_schedule(self, *, live: bool | None = None) -> Schedule:
        """The static schedule: `schedule`, or its default."""
        if self.schedule is not None:
            return Schedule(
                tuple(Row(row.max_batch_size, row.num_speculative_tokens) for row in self.schedule)
            )
        return default_schedule(self.method, self.effective_candidates(live=live))
