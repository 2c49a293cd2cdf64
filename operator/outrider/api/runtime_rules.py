"""``spec``: what only some engines can do. `outrider.api.engines` says which."""

from __future__ import annotations

from outrider.api.base import rule
from outrider.api.engine import ModelRunner, Plugin
from outrider.api.engines import ADMISSIONS, having
from outrider.api.engines.admission import Admission, Feature
from outrider.api.owned_flags import pools, pools_rule, property_name, spellings
from outrider.api.spec_fields import SpecFields
from outrider.api.speculation_fields import Verification
from outrider.api.tuning import StructuralOff, TuningMode
from outrider_protocol.methods import K0, Method

_OWN = "!has(self.model) || !has(self.speculation) || "
_N = "self.speculation.numSpeculativeTokens"
_TUNING = "self.speculation.tuning"
_METHOD = "self.speculation.method"
_STATIC = f"(has({_TUNING}) && {_TUNING}.mode == 'Off')"
_ROLLOUT = f"(has({_TUNING}) && {_TUNING}.actuation == 'Rollout')"


def _with(feature: Feature) -> str:
    """CEL: the engine has a feature."""
    return f"self.engine.runtime in {having(feature)}"


def _of(methods: dict[str, tuple[Method, ...]]) -> str:
    """CEL: the method is one of those that belong to the runtime."""
    rows = (
        f"(self.engine.runtime == '{kind}' && {_METHOD} in {[str(method) for method in given]})"
        for kind, given in methods.items()
        if given
    )
    return f"({' || '.join(rows)})"


_SERVED = _of({kind: admission.methods for kind, admission in ADMISSIONS.items()})
_RELAUNCHED = _of({kind: admission.relaunched for kind, admission in ADMISSIONS.items()})
_FIXED = _of({kind: admission.static for kind, admission in ADMISSIONS.items()})
_FIXED_BY = {kind: admission for kind, admission in ADMISSIONS.items() if admission.fixed_by}
_SWITCHED = " || ".join(
    f"(self.engine.runtime == '{kind}' && has({place}) && {place})"
    for kind, admission in _FIXED_BY.items()
    for flag in admission.fixed_by
    for spelling in spellings(flag)
    for place in [f"self.engine.args.{property_name(spelling)}"]
)


class RuntimeRules(SpecFields):
    """The rules between the kind of the engine and the other fields."""

    @rule(
        f"{_OWN}{_SERVED}",
        "spec.speculation.method: {engine.runtime} has no method {speculation.method}. "
        + ". ".join(
            f"{kind} has {', '.join(each.methods)}"
            for kind, each in ADMISSIONS.items()
            if len(each.methods) < len(Method)
        ),
        field=".speculation.method",
    )
    def _runtime_has_the_method(self) -> bool:
        return self.speculation.method in self._admission.methods

    @rule(
        f"{_OWN}!{_RELAUNCHED} || {_STATIC} || {_ROLLOUT}",
        "spec.speculation.tuning: {engine.runtime} changes K of method {speculation.method} by a restart "
        'only; set actuation: Rollout, or mode: "Off"',
        field=".speculation.tuning",
    )
    def _relaunched_methods_roll_out(self) -> bool:
        return not self._is_relaunched or self.rolls_out or self._is_static

    @rule(
        f"{_OWN}!{_RELAUNCHED} || !{_ROLLOUT} || "
        "((!has(self.speculation.schedule) || size(self.speculation.schedule) == 1) && "
        f"{_TUNING}.structuralOff == 'Never')",
        "spec.speculation: {engine.runtime} has one K of method {speculation.method} for all batch sizes; "
        "write one row without maxBatchSize in schedule, and tuning.structuralOff: Never",
        field=".speculation",
    )
    def _relaunched_methods_start_with_one_k(self) -> bool:
        if not self._is_relaunched or not self.rolls_out:
            return True
        rows = 1 if self.speculation.schedule is None else len(self.speculation.schedule)
        return rows == 1 and self.speculation.tuning.structural_off is StructuralOff.NEVER

    @rule(
        f"{_OWN}!{_FIXED} || {_STATIC}",
        "spec.speculation.tuning.mode: {engine.runtime} does not change K of method {speculation.method}; "
        'write mode: "Off"',
        field=".speculation.tuning",
    )
    def _fixed_methods_are_not_tuned(self) -> bool:
        return self.speculation.method not in self._admission.static or self._is_static

    @rule(
        f"{_OWN}!({_FIXED} || ({_RELAUNCHED} && !{_ROLLOUT})) || "
        f"((!has(self.speculation.candidates) || (has({_N}) && "
        f"self.speculation.candidates.all(k, k == {_N}))) && (!has(self.speculation.schedule) || "
        f"(has({_N}) && self.speculation.schedule.all(row, row.numSpeculativeTokens == {_N}))))",
        "spec.speculation: {engine.runtime} keeps one K of method {speculation.method}; candidates and "
        "schedule may name numSpeculativeTokens only, or leave them out",
        field=".speculation",
    )
    def _fixed_methods_have_one_k(self) -> bool:
        wanted = self.speculation
        fixed = wanted.method in self._admission.static or (self._is_relaunched and not self.rolls_out)
        named = {*(wanted.candidates or ()), *(row.num_speculative_tokens for row in wanted.schedule or ())}
        return not fixed or named <= {wanted.num_speculative_tokens}

    @rule(
        f"{_OWN}!has(self.engine.args) || {_METHOD} == 'none' || {_RELAUNCHED} || {_FIXED} || "
        f"(has(self.speculation.candidates) && size(self.speculation.candidates) == 1) || !({_SWITCHED})",
        "spec.engine.args: {engine.runtime} changes no K with "
        + " and ".join(f"{', '.join(each.fixed_by)} ({kind})" for kind, each in _FIXED_BY.items())
        + '. Leave the flag out, or write tuning.mode: "Off" and one value in speculation.candidates',
        field=".engine.args",
    )
    def _running_engines_can_change_k(self) -> bool:
        args, wanted = self.engine.args, self.speculation
        flags = [spelling for flag in self._admission.fixed_by for spelling in spellings(flag)]
        fixed = wanted.method in (Method.NONE, *self._admission.relaunched, *self._admission.static)
        fixed = fixed or len(wanted.candidates or ()) == 1
        return fixed or not any(args.get(flag) is True for flag in flags)

    @rule(
        f"{_OWN}{_METHOD} == 'none' || !has(self.engine.args) || !({pools_rule()})",
        "spec.speculation.method: with these engine.args (runner, convert, task or is-embedding) the model "
        "gives embeddings or scores and generates no tokens. Write method: none",
        field=".speculation.method",
    )
    def _pooling_models_draft_nothing(self) -> bool:
        return self.speculation.method is Method.NONE or not pools(self.engine.args, self.engine.runtime)

    @rule(
        f"{_OWN}!has(self.engine.plugin) || self.engine.plugin != 'Baked' || !has(self.engine.image) || "
        f"{_ROLLOUT} || !("
        + " || ".join(
            f"(self.engine.runtime == '{kind}' && self.engine.image.matches('^{each.stock_image}$'))"
            for kind, each in ADMISSIONS.items()
        )
        + ")",
        "spec.engine.plugin: Baked says that the image has Outrider's plugin, and {engine.image} is "
        "{engine.runtime}'s own, without it. Leave plugin out, or build an image on top of it "
        "(engine_image/Dockerfile)",
        field=".engine.plugin",
    )
    def _baked_images_have_the_plugin(self) -> bool:
        baked = self.engine.plugin is Plugin.BAKED and not self.rolls_out
        return not baked or not self.engine.is_stock(self.engine.image)

    @rule(
        f"{_with(Feature.MODEL_RUNNER)} || self.engine.modelRunner == 'Auto'",
        "spec.engine.modelRunner: {engine.runtime} has one model runner; leave modelRunner out",
        field=".engine.modelRunner",
    )
    def _runtime_has_a_choice_of_runners(self) -> bool:
        return self._has(Feature.MODEL_RUNNER) or self.engine.model_runner is ModelRunner.AUTO

    @rule(
        f"{_OWN}{_with(Feature.ADAPTIVE_VERIFICATION)} || !has(self.speculation.verification) || "
        "self.speculation.verification == 'Fixed'",
        "spec.speculation.verification: {engine.runtime} verifies all drafts; leave verification out",
        field=".speculation.verification",
    )
    def _runtime_verifies_adaptively(self) -> bool:
        fixed = self.speculation.verification is Verification.FIXED
        return self._has(Feature.ADAPTIVE_VERIFICATION) or fixed

    @rule(
        f"{_OWN}{_with(Feature.SPECULATIVE_CONFIG)} || !has(self.speculation.config)",
        "spec.speculation.config has keys of vLLM, and the engine is {engine.runtime}; write its flags into "
        "spec.engine.args",
        field=".speculation.config",
    )
    def _runtime_has_a_speculative_config(self) -> bool:
        given = "config" in self.speculation.model_fields_set
        return self._has(Feature.SPECULATIVE_CONFIG) or not given

    @rule(
        f"{_OWN}{_with(Feature.REQUEST_LIMITS)} || !has(self.speculation.requestLimits) || "
        "size(self.speculation.requestLimits) == 0",
        "spec.speculation.requestLimits: {engine.runtime} has one K for all requests of a batch; leave "
        "requestLimits out",
        field=".speculation.requestLimits",
    )
    def _runtime_limits_requests(self) -> bool:
        return self._has(Feature.REQUEST_LIMITS) or not self.speculation.request_limits

    @rule(
        f"{_OWN}{_with(Feature.IDLE_DRAFTER)} || !has({_TUNING}) || {_TUNING}.k0 == 'Auto'",
        "spec.speculation.tuning.k0: {engine.runtime} decides what a drafter does while K is 0; leave k0 out",
        field=".speculation.tuning",
    )
    def _runtime_has_idle_drafters(self) -> bool:
        return self._has(Feature.IDLE_DRAFTER) or self.speculation.tuning.k0 is K0.AUTO

    @rule(
        f"{_OWN}{_with(Feature.SPREAD_DRAFTER)} || !has(self.speculation.drafter) || "
        "!has(self.speculation.drafter.tensorParallelSize)",
        "spec.speculation.drafter.tensorParallelSize: {engine.runtime} spreads a drafter as its target; "
        "leave tensorParallelSize out",
        field=".speculation.drafter",
    )
    def _runtime_spreads_drafters(self) -> bool:
        drafter = self.speculation.drafter
        own = drafter is not None and drafter.tensor_parallel_size is not None
        return self._has(Feature.SPREAD_DRAFTER) or not own

    @rule(
        f"{_OWN}{_with(Feature.PIPELINED_DRAFTS)} || self.parallelism.pipeline == 1 || {_METHOD} == 'none'",
        "spec.parallelism.pipeline is {parallelism.pipeline}: with {engine.runtime} Outrider drafts without "
        "pipeline stages only; write pipeline: 1 and a larger tensor, or method: none",
        field=".parallelism.pipeline",
    )
    def _runtime_drafts_in_stages(self) -> bool:
        drafts = self.speculation.method is not Method.NONE and self.parallelism.pipeline > 1
        return self._has(Feature.PIPELINED_DRAFTS) or not drafts

    @rule(
        f"{_with(Feature.LORA_ADAPTERS)} || !has(self.engine.loraAdapters) || "
        "size(self.engine.loraAdapters) == 0",
        "spec.engine.loraAdapters: Outrider loads adapters in vLLM only; write the flags of {engine.runtime} "
        "into spec.engine.args",
        field=".engine.loraAdapters",
    )
    def _runtime_loads_adapters(self) -> bool:
        return self._has(Feature.LORA_ADAPTERS) or not self.engine.lora_adapters

    @rule(
        f"{_with(Feature.TRANSFER_PEERS)} || !has(self.engine.kvTransferPeer)",
        "spec.engine.kvTransferPeer: Outrider compares both ends of a KV connector in vLLM only; leave it "
        "out",
        field=".engine.kvTransferPeer",
    )
    def _runtime_has_transfer_peers(self) -> bool:
        return self._has(Feature.TRANSFER_PEERS) or self.engine.kv_transfer_peer is None

    @rule(
        f"!has(self.model) || {_with(Feature.ALIASES)} || !has(self.model.servedAliases) || "
        "size(self.model.servedAliases) == 0",
        "spec.model.servedAliases: {engine.runtime} serves one name; leave servedAliases out",
        field=".model.servedAliases",
    )
    def _runtime_has_aliases(self) -> bool:
        return self._has(Feature.ALIASES) or not self.model.served_aliases

    @property
    def _admission(self) -> Admission:
        return self.engine.admission

    @property
    def _is_relaunched(self) -> bool:
        return self.speculation.method in self._admission.relaunched

    @property
    def _is_static(self) -> bool:
        return self.speculation.tuning.mode is TuningMode.OFF

    def _has(self, feature: Feature) -> bool:
        return feature in self._admission.features
