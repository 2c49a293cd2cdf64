"""``spec.speculation``: method, drafter, the K values, the static schedule and the tuner's mode."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from typing import Annotated

from pydantic import BeforeValidator, Field

from outrider.api.base import ApiModel, rule
from outrider.api.drafting import (
    MAX_K,
    DrafterSource,
    DraftLength,
    ScheduleRow,
    default_candidates,
    default_schedule,
)
from outrider.api.request_limits import RequestLimits
from outrider.api.speculative_config import OWN_VOCABULARY, SpeculativeConfig
from outrider.api.text import shortened
from outrider.api.tuning import Actuation, Tuning, TuningMode
from outrider_protocol.methods import (
    K0,
    TRAITS,
    Drafter,
    Kind,
    Method,
    Tunability,
    method_named,
    methods_with,
)
from outrider_protocol.releases import ADAPTIVE_SINCE
from outrider_protocol.schedule import Row, Schedule

SUFFIX_TREE_DEPTH = 24
"""vLLM's limit of suffix decoding. Source: vLLM's SpeculativeConfig."""
_TREE_DEPTH = "suffix_decoding_max_tree_depth"


def _names(*methods: Method) -> str:
    return "[" + ", ".join(f"'{method}'" for method in methods) + "]"


_LIVE = _names(*methods_with(tunability=Tunability.LIVE))
_ONE_K = _names(*(m for m in methods_with(tunability=Tunability.STATIC) if m is not Method.NONE))
_REFUSED = _names(*methods_with(tunability=Tunability.REFUSED))
_NEEDS_DRAFTER = _names(*methods_with(drafter=Drafter.REQUIRED))
_TAKES_NO_DRAFTER = _names(*methods_with(drafter=Drafter.FORBIDDEN))
_OF_ONE_BLOCK = _names(*methods_with(kind=Kind.BLOCK))
_N = "self.numSpeculativeTokens"
_DEFAULT_CANDIDATES = (
    f"(self.method in {_OF_ONE_BLOCK} ? [0, 1, ({_N} + 3) / 4, ({_N} + 1) / 2, {_N}] "
    f": [0, 1, 2, ({_N} + 1) / 2, {_N}])"
)
_TUNED = "(!has(self.tuning) || self.tuning.mode != 'Off')"
_ROLLS_OUT = "(has(self.tuning) && self.tuning.actuation == 'Rollout')"
_VERIFYING = _names(*(method for method in Method if method in ADAPTIVE_SINCE))
_ADAPTIVE = "(has(self.verification) && self.verification == 'Adaptive')"
_MAY_VERIFY_ADAPTIVELY = "(has(self.verification) && self.verification != 'Fixed')"
_COMPARES = "(has(self.verification) && self.verification == 'Auto')"


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


class Speculation(ApiModel):
    """Speculative decoding of one model."""

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

    @rule(
        f"!(self.method in {_REFUSED})",
        "spec.speculation.method: Outrider launches no engine with {method}; use another method",
        field=".method",
    )
    def _method_is_served(self) -> bool:
        return TRAITS[self.method].tunability is not Tunability.REFUSED

    @rule(
        f"!(self.method in {_NEEDS_DRAFTER}) || has(self.drafter)",
        "spec.speculation.drafter: method {method} needs a drafter; set drafter.uri",
        field=".drafter",
    )
    def _drafter_is_given(self) -> bool:
        return TRAITS[self.method].drafter is not Drafter.REQUIRED or self.drafter is not None

    @rule(
        f"!(self.method in {_TAKES_NO_DRAFTER}) || !has(self.drafter)",
        "spec.speculation.drafter: method {method} uses no drafter; leave it out",
        field=".drafter",
    )
    def _drafter_is_used(self) -> bool:
        return TRAITS[self.method].drafter is not Drafter.FORBIDDEN or self.drafter is None

    @rule(
        "self.method != 'none' || !(has(self.numSpeculativeTokens) || has(self.candidates) "
        "|| has(self.schedule) || has(self.requestLimits) || "
        "(has(self.tuning) && self.tuning.mode != 'Off'))",
        "spec.speculation: method none drafts nothing; leave out numSpeculativeTokens, candidates, "
        "schedule, requestLimits and tuning",
        field=".method",
    )
    def _nothing_is_set_for_none(self) -> bool:
        fields = (self.num_speculative_tokens, self.candidates, self.schedule)
        named = "request_limits" in self.model_fields_set or any(field is not None for field in fields)
        tuned = "tuning" in self.model_fields_set and self.tuning.mode is not TuningMode.OFF
        return self.method is not Method.NONE or not (named or tuned)

    @rule(
        "self.method != 'none' || !has(self.config)",
        "spec.speculation.config is not used by method none; leave it out",
        field=".config",
    )
    def _config_has_a_drafter(self) -> bool:
        return self.method is not Method.NONE or "config" not in self.model_fields_set

    @rule(
        f"!has(self.config) || !has(self.config.{OWN_VOCABULARY}) || !self.config.{OWN_VOCABULARY} || "
        "self.method == 'draft_model'",
        f"spec.speculation.config.{OWN_VOCABULARY} is for method draft_model; leave it out",
        field=".config",
    )
    def _own_vocabulary_is_of_a_draft_model(self) -> bool:
        return self.method is Method.DRAFT_MODEL or not self.config.get(OWN_VOCABULARY)

    @rule(
        f"!{_MAY_VERIFY_ADAPTIVELY} || self.method in {_VERIFYING}",
        "spec.speculation.verification: vLLM has no adaptive verification for method {method}; leave it out. "
        f"It has it for {', '.join(method for method in Method if method in ADAPTIVE_SINCE)}",
        field=".verification",
    )
    def _method_verifies_adaptively(self) -> bool:
        return not self.may_verify_adaptively or self.method in ADAPTIVE_SINCE

    @rule(
        f"!{_COMPARES} || {_TUNED}",
        "spec.speculation.verification: with Auto the tuner compares, and tuning.mode Off measures nothing; "
        "set tuning.mode: Auto, or verification: Fixed or Adaptive",
        field=".verification",
    )
    def _verification_is_compared_by_a_tuner(self) -> bool:
        return not self.compares_verification or self.tuning.mode is not TuningMode.OFF

    @rule(
        f"!{_MAY_VERIFY_ADAPTIVELY} || !{_TUNED} || !{_ROLLS_OUT}",
        "spec.speculation.verification: with Adaptive and Auto vLLM leaves draft tokens unverified, and only "
        "Outrider's plugin counts them. With tuning.actuation: Rollout the tuner would use wrong numbers. "
        'Set actuation: Live, tuning.mode: "Off", or verification: Fixed',
        field=".verification",
    )
    def _adaptive_verification_is_tuned_with_true_counters(self) -> bool:
        tuned = self.tuning.mode is not TuningMode.OFF
        return not self.may_verify_adaptively or not tuned or self.tuning.actuation is not Actuation.ROLLOUT

    @rule(
        f"!{_ADAPTIVE} || {_TUNED} || !has({_N}) || "
        f"((!has(self.candidates) || self.candidates.all(k, k == {_N})) && "
        f"(!has(self.schedule) || self.schedule.all(row, row.numSpeculativeTokens == {_N})))",
        "spec.speculation.verification: with Adaptive and tuning.mode Off the engine keeps one K; candidates "
        "and schedule may name numSpeculativeTokens only, or leave them out",
        field=".verification",
    )
    def _adaptive_verification_without_tuning_has_one_k(self) -> bool:
        if not self.keeps_one_k or self.num_speculative_tokens is None:
            return True
        return self._named_k <= {self.num_speculative_tokens}

    @rule(
        f"self.method in {_OF_ONE_BLOCK} || self.method in ['none', 'suffix'] || has({_N})",
        "spec.speculation.numSpeculativeTokens: method {method} needs it; 3 to 5 is a good start",
        field=".numSpeculativeTokens",
    )
    def _ceiling_is_given(self) -> bool:
        free = TRAITS[self.method].kind is Kind.BLOCK or self.method in (Method.NONE, Method.SUFFIX)
        return free or self.num_speculative_tokens is not None

    @rule(
        f"!(self.method in {_OF_ONE_BLOCK}) || has({_N}) || (self.method == 'dspark' && has(self.drafter))",
        "spec.speculation.numSpeculativeTokens: set the length of the block that the head drafts at once. "
        "Its model card and block_size in its config.json have it (DFlash heads draft one token less)",
        field=".numSpeculativeTokens",
    )
    def _block_is_given(self) -> bool:
        block = TRAITS[self.method].kind is Kind.BLOCK
        free = not block or (self.method is Method.DSPARK and self.drafter is not None)
        return free or self.num_speculative_tokens is not None

    @rule(
        f"self.method != 'dspark' || !has(self.drafter) || has({_N}) || "
        f"(!{_TUNED} && !has(self.candidates) && !has(self.schedule))",
        "spec.speculation.numSpeculativeTokens: K of method {method} changes up to the length of its block. "
        'Set numSpeculativeTokens to block_size of its config.json. Or set tuning.mode: "Off", without '
        "candidates and schedule",
        field=".numSpeculativeTokens",
    )
    def _a_tuned_block_is_given(self) -> bool:
        one_k = self.tuning.mode is TuningMode.OFF and self.candidates is None and self.schedule is None
        read = self.method is Method.DSPARK and self.drafter is not None
        return not read or self.num_speculative_tokens is not None or one_k

    @rule(
        "!has(self.candidates) || self.candidates.all(k, self.candidates.exists_one(other, other == k)) "
        "&& self.candidates.isSorted()",
        "spec.speculation.candidates: {candidates} does not rise; write each value once, the smallest first",
        field=".candidates",
    )
    def _candidates_rise(self) -> bool:
        return self.candidates is None or all(low < high for low, high in pairwise(self.candidates))

    @rule(
        f"!has(self.candidates) || !has({_N}) || self.candidates.all(k, k <= {_N})",
        "spec.speculation.candidates: {candidates} exceeds numSpeculativeTokens, which is "
        "{numSpeculativeTokens}; leave out larger values, or raise numSpeculativeTokens",
        field=".candidates",
    )
    def _candidates_stay_below_the_ceiling(self) -> bool:
        ceiling = self.num_speculative_tokens
        return self.candidates is None or ceiling is None or all(k <= ceiling for k in self.candidates)

    @rule(
        f"!has(self.candidates) || !has({_N}) || {_N} in self.candidates",
        "spec.speculation.candidates: {candidates} lacks numSpeculativeTokens, the largest K, which is "
        "{numSpeculativeTokens}; add it",
        field=".candidates",
    )
    def _candidates_contain_the_ceiling(self) -> bool:
        ceiling = self.num_speculative_tokens
        return self.candidates is None or ceiling is None or ceiling in self.candidates

    @rule(
        f"!has(self.candidates) || !(self.method in {_LIVE}) || !{_TUNED} || 0 in self.candidates",
        "spec.speculation.candidates: {candidates} lacks 0, with which drafting stops where it does not pay; "
        'add 0, or set tuning.mode: "Off"',
        field=".candidates",
    )
    def _drafting_can_stop(self) -> bool:
        tuned = self.tuning.mode is not TuningMode.OFF
        live = TRAITS[self.method].tunability is Tunability.LIVE
        return self.candidates is None or not live or not tuned or 0 in self.candidates

    @rule(
        "!has(self.schedule) || (self.schedule.filter(row, !has(row.maxBatchSize)).size() == 1 "
        "&& !has(self.schedule[size(self.schedule) - 1].maxBatchSize))",
        "spec.speculation.schedule: the last row, and only the last, leaves out maxBatchSize; add such a row",
        field=".schedule",
    )
    def _last_row_is_open(self) -> bool:
        rows = [row.max_batch_size for row in self.schedule or ()]
        return not rows or (rows[-1] is None and None not in rows[:-1])

    @rule(
        "!has(self.schedule) || self.schedule.filter(row, has(row.maxBatchSize))"
        ".map(row, row.maxBatchSize).isSorted() && self.schedule.all(row, !has(row.maxBatchSize) || "
        "self.schedule.exists_one(o, has(o.maxBatchSize) && o.maxBatchSize == row.maxBatchSize))",
        "spec.speculation.schedule: maxBatchSize does not rise from row to row; write the smallest first",
        field=".schedule",
    )
    def _rows_rise(self) -> bool:
        edges = [row.max_batch_size for row in self.schedule or () if row.max_batch_size is not None]
        return all(low < high for low, high in pairwise(edges))

    @rule(
        f"!has(self.schedule) || !has({_N}) || !(self.method in {_LIVE}) || self.schedule.all(row, "
        f"row.numSpeculativeTokens <= {_N} && "
        f"row.numSpeculativeTokens in (has(self.candidates) ? self.candidates : {_DEFAULT_CANDIDATES}))",
        "spec.speculation.schedule: numSpeculativeTokens of a row is not one of candidates (default: 0, 1, "
        "2, half of {numSpeculativeTokens} rounded up, and {numSpeculativeTokens}). Add it to candidates. "
        "With dflash and dspark the default has a quarter in place of 2",
        field=".schedule",
    )
    def _schedule_uses_candidates(self) -> bool:
        if self.schedule is None or self.num_speculative_tokens is None or not self.live:
            return True
        return {row.num_speculative_tokens for row in self.schedule} <= set(self.effective_candidates())

    @rule(
        f"!(self.method in {_ONE_K}) || (has(self.tuning) && self.tuning.mode == 'Off')",
        "spec.speculation.tuning.mode: vLLM cannot change K of method {method} while it runs; "
        'write mode: "Off"',
        field=".tuning",
    )
    def _static_methods_are_not_tuned(self) -> bool:
        return self.live or self.method is Method.NONE or self._refused or self.tuning.mode is TuningMode.OFF

    @rule(
        f"!(self.method in {_ONE_K}) || "
        f"((!has(self.candidates) || (has({_N}) && self.candidates.all(k, k == {_N}))) && "
        f"(!has(self.schedule) || "
        f"(has({_N}) && self.schedule.all(row, row.numSpeculativeTokens == {_N}))))",
        "spec.speculation: with method {method} an engine keeps one K; candidates and schedule may name "
        "numSpeculativeTokens only, or leave them out",
        field=".method",
    )
    def _static_methods_have_one_k(self) -> bool:
        if self.live or self._refused or self.method is Method.NONE:
            return True
        return self._named_k <= {self.num_speculative_tokens}

    @rule(
        f"!has(self.requestLimits) || !has({_N}) || self.requestLimits.all(limit, limit.maxK < {_N})",
        "spec.speculation.requestLimits: a maxK of {numSpeculativeTokens} or more limits nothing, since "
        "numSpeculativeTokens is {numSpeculativeTokens}; write a smaller one",
        field=".requestLimits",
    )
    def _limits_are_below_the_ceiling(self) -> bool:
        ceiling = self.num_speculative_tokens
        return ceiling is None or all(limit.max_k < ceiling for limit in self.request_limits)

    @rule(
        f"!has(self.requestLimits) || size(self.requestLimits) == 0 || !{_ROLLS_OUT}",
        "spec.speculation.requestLimits: Outrider's plugin limits requests, and with tuning.actuation: "
        "Rollout engines run without it. Set actuation: Live, or leave requestLimits out",
        field=".requestLimits",
    )
    def _limits_have_the_plugin(self) -> bool:
        return not self.request_limits or self.tuning.actuation is not Actuation.ROLLOUT

    @rule(
        "!has(self.tuning) || self.tuning.k0 != 'Skip' || self.method == 'draft_model'",
        "spec.speculation.tuning.k0: Skip works with method draft_model only, and method is {method}; use "
        "Auto or Sync",
        field=".tuning",
    )
    def _skipped_drafters_can_catch_up(self) -> bool:
        return self.tuning.k0 is not K0.SKIP or self.method is Method.DRAFT_MODEL

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

    @property
    def _refused(self) -> bool:
        return TRAITS[self.method].tunability is Tunability.REFUSED

    @property
    def _named_k(self) -> set[int]:
        return {*(self.candidates or ()), *(row.num_speculative_tokens for row in self.schedule or ())}

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
