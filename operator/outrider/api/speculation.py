"""``spec.speculation``: what must hold between its fields."""

from __future__ import annotations

from itertools import pairwise

from outrider.api.base import rule
from outrider.api.speculation_fields import SpeculationFields
from outrider.api.speculative_config import OWN_VOCABULARY
from outrider.api.tuning import Actuation, TuningMode
from outrider_protocol.methods import (
    K0,
    TRAITS,
    Drafter,
    Kind,
    Method,
    Tunability,
    methods_with,
)
from outrider_protocol.releases import ADAPTIVE_SINCE


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


class Speculation(SpeculationFields):
    """Speculative decoding of one model."""

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
    def _refused(self) -> bool:
        return TRAITS[self.method].tunability is Tunability.REFUSED

    @property
    def _named_k(self) -> set[int]:
        return {*(self.candidates or ()), *(row.num_speculative_tokens for row in self.schedule or ())}
