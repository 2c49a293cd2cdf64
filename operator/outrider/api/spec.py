"""``spec`` of a SpeculativeModel: what must hold between its parts."""

from __future__ import annotations

import json

from outrider.api.base import ApiModel, rule
from outrider.api.engine import Engine, ModelRunner
from outrider.api.parallelism import Parallelism
from outrider.api.rollout import OnFailure, Rollout
from outrider.api.runtime_rules import RuntimeRules
from outrider.api.tuning import Actuation, Canary, StructuralOff, TuningMode
from outrider_protocol.methods import PIPELINED, Method


def _as_by_default(field: str, part: type[ApiModel]) -> str:
    """CEL: a stored part has no value but the defaults of its schema."""
    defaults = part().model_dump(mode="json", by_alias=True, exclude_none=True)
    return " && ".join(f"self.{field}.{name} == {json.dumps(value)}" for name, value in defaults.items())


_OWN = "!has(self.model) || !has(self.speculation) || "
_STATIC = "(has(self.speculation.tuning) && self.speculation.tuning.mode == 'Off')"
_N = "self.speculation.numSpeculativeTokens"
_TUNING = "self.speculation.tuning"
_ROLLOUT = f"(has({_TUNING}) && {_TUNING}.actuation == 'Rollout')"


def _from(scheme: str) -> str:
    """The rule that weights of model or drafter come from such a place."""
    return (
        f"(self.model.uri.startsWith('{scheme}://') || (has(self.speculation.drafter) && "
        f"self.speculation.drafter.uri.startsWith('{scheme}://')))"
    )


class Spec(RuntimeRules):
    """The desired state."""

    @rule(
        "has(self.target) != has(self.model)",
        "spec.model: write the model to serve, or spec.target for pods that run already, and only one of "
        "both",
        field=".model",
    )
    def _has_a_model_or_a_target(self) -> bool:
        return (self.target is None) == ("model" in self.model_fields_set)

    @rule(
        "!has(self.model) || has(self.target) || has(self.speculation)",
        "spec.speculation: a model needs it; write at least its method, such as method: ngram, or none",
        field=".speculation",
    )
    def _a_model_has_a_method(self) -> bool:
        named = {"speculation", "target"} & self.model_fields_set
        return "model" not in self.model_fields_set or bool(named)

    @rule(
        "!has(self.target) || has(self.model) || !(has(self.speculation) || has(self.resources) || "
        "has(self.cache) || has(self.podTemplate) || has(self.inferencePool))",
        "spec.target: Outrider neither launches nor restarts these pods; leave out speculation, resources, "
        "cache, podTemplate and inferencePool. Their owner sets the method, and spec.target.tuning sets the "
        "tuner's mode",
        field=".target",
    )
    def _targets_are_launched_by_their_owner(self) -> bool:
        about_pods = (self.resources, self.cache, self.pod_template, self.inference_pool)
        launched = "speculation" in self.model_fields_set or any(part is not None for part in about_pods)
        return self.target is None or "model" in self.model_fields_set or not launched

    @rule(
        "!has(self.target) || self.replicas == 1",
        "spec.replicas is {replicas}: Outrider does not scale the pods of spec.target; scale their workload, "
        "and leave replicas out",
        field=".replicas",
    )
    def _targets_are_scaled_by_their_owner(self) -> bool:
        return self.target is None or self.replicas == 1

    @rule(
        "!has(self.target) || (!has(self.engine.image) && !has(self.engine.args) && self.engine.port == 8000 "
        "&& !has(self.engine.loraAdapters) && !has(self.engine.kvTransferPeer) "
        f"&& self.engine.modelRunner == 'Auto' && {_as_by_default('parallelism', Parallelism)})",
        "spec.engine: Outrider does not launch the engines of spec.target; leave out engine and parallelism, "
        "and write their port into spec.target.port",
        field=".engine",
    )
    def _targets_have_engines_of_their_owner(self) -> bool:
        engine = self.engine
        own = engine.image is None and not engine.args and engine.port == Engine().port
        own = own and not engine.lora_adapters and engine.kv_transfer_peer is None
        standard = engine.model_runner is ModelRunner.AUTO and self.parallelism == Parallelism()
        return self.target is None or (own and standard)

    @rule(
        f"!has(self.target) || ({_as_by_default('rollout', Rollout)})",
        "spec.rollout: Outrider rolls out no pods of spec.target; leave it out",
        field=".rollout",
    )
    def _targets_are_rolled_out_by_their_owner(self) -> bool:
        return self.target is None or self.rollout == Rollout()

    @rule(
        "has(self.target) == has(oldSelf.target)",
        "spec.target: Outrider does not turn a model into a target, or back, because its engines would stop. "
        "Create a SpeculativeModel of another name",
        field=".target",
    )
    def _stays_what_it_is(self) -> bool:
        return True  # only the API server knows what it was

    @rule(
        f"{_OWN}!has(self.cache) || {_from('hf')} || {_from('s3')}",
        "spec.cache keeps what is downloaded from hf:// or s3://, and neither model nor drafter is; leave it "
        "out",
        field=".cache",
    )
    def _cache_is_used(self) -> bool:
        return self.target is not None or self.cache is None or self._is_from("hf://", "s3://")

    @rule(
        f"{_OWN}!{_from('s3')} || has(self.cache)",
        "spec.cache: weights of s3:// are downloaded onto a volume first; write size for a new claim, or "
        "claim for one that exists",
        field=".cache",
    )
    def _buckets_have_a_cache(self) -> bool:
        return self.cache is not None or not self._is_from("s3://")

    @rule(
        f"{_OWN}!has(self.cache) || !has(self.cache.s3) || {_from('s3')}",
        "spec.cache.s3 is for s3://, and neither model nor drafter is in a bucket; leave it out",
        field=".cache.s3",
    )
    def _store_is_used(self) -> bool:
        return self.cache is None or self.cache.s3 is None or self._is_from("s3://")

    @rule(
        f"{_OWN}!has(self.model.secretRef) || {_from('hf')} || (has(self.engine.loraAdapters) && "
        "self.engine.loraAdapters.exists(a, a.uri.startsWith('hf://')))",
        "spec.model.secretRef is the token for hf://, and neither model, drafter nor a LoRA adapter is from "
        "there; leave it out",
        field=".model.secretRef",
    )
    def _token_is_used(self) -> bool:
        adapters = self.engine.lora_adapters
        from_hub = self._is_from("hf://") or any(a.uri.startswith("hf://") for a in adapters)
        return self.model.secret_ref is None or from_hub

    @rule(
        f"{_OWN}!has(self.speculation.drafter) || !has(self.speculation.drafter.tensorParallelSize) || "
        "self.speculation.drafter.tensorParallelSize == self.parallelism.tensor || "
        "(self.speculation.drafter.tensorParallelSize == 1 && self.speculation.method == 'dspark')",
        "spec.speculation.drafter.tensorParallelSize is {speculation.drafter.tensorParallelSize}, and "
        "spec.parallelism.tensor is {parallelism.tensor}: vLLM spreads a drafter over the GPUs of its "
        "target; leave it out. Only method dspark also takes 1",
        field=".speculation.drafter.tensorParallelSize",
    )
    def _drafter_spreads_as_the_engine_can(self) -> bool:
        drafter = self.speculation.drafter
        if drafter is None or drafter.tensor_parallel_size in (None, self.parallelism.tensor):
            return True
        return drafter.tensor_parallel_size == 1 and self.speculation.method is Method.DSPARK

    @rule(
        f"{_OWN}self.parallelism.data == 1 || self.speculation.method == 'none' || {_STATIC} || {_ROLLOUT}",
        "spec.parallelism.data is {parallelism.data}: with data parallelism vLLM cannot change K while it "
        "runs. Write data: 1 (and more replicas for a dense model), or set "
        'spec.speculation.tuning.actuation: Rollout, or mode: "Off"',
        field=".parallelism.data",
    )
    def _data_parallel_takes_no_live_table(self) -> bool:
        tuned = self.speculation.method is not Method.NONE and self.speculation.tuning.mode != TuningMode.OFF
        return self.parallelism.data == 1 or not tuned or self.rolls_out

    @rule(
        f"{_OWN}self.parallelism.data == 1 || !{_ROLLOUT} || "
        f"((!has(self.speculation.schedule) || size(self.speculation.schedule) == 1) && "
        f"{_TUNING}.structuralOff == 'Never')",
        "spec.parallelism.data is {parallelism.data}: an engine then has one K for all batch sizes; write "
        "one row without maxBatchSize in schedule, and structuralOff: Never",
        field=".parallelism.data",
    )
    def _data_parallel_starts_with_one_k(self) -> bool:
        if self.parallelism.data == 1 or not self.rolls_out:
            return True
        wanted = self.speculation
        rows = 1 if wanted.schedule is None else len(wanted.schedule)
        return rows == 1 and wanted.tuning.structural_off is StructuralOff.NEVER

    @rule(
        f"{_OWN}self.parallelism.data == 1 || {_ROLLOUT} || !has({_N}) || "
        "((!has(self.speculation.candidates) || "
        f"self.speculation.candidates.all(k, k == {_N})) && (!has(self.speculation.schedule) || "
        f"self.speculation.schedule.all(row, row.numSpeculativeTokens == {_N})))",
        "spec.parallelism.data is {parallelism.data}: with data parallelism an engine keeps one K; "
        "candidates and schedule may name {speculation.numSpeculativeTokens} only. Leave them out, or set "
        "tuning.actuation: Rollout",
        field=".parallelism.data",
    )
    def _data_parallel_has_one_k(self) -> bool:
        wanted = self.speculation
        if self.parallelism.data == 1 or self.rolls_out or wanted.num_speculative_tokens is None:
            return True
        named = {*(wanted.candidates or ()), *(row.num_speculative_tokens for row in wanted.schedule or ())}
        return named <= {wanted.num_speculative_tokens}

    @rule(
        f"{_OWN}self.parallelism.pipeline == 1 || (self.speculation.method in "
        f"{[str(method) for method in (Method.NONE, *PIPELINED)]} && "
        "(self.speculation.method == 'none' || self.engine.modelRunner != 'V1'))",
        "spec.parallelism.pipeline is {parallelism.pipeline}: with pipeline stages vLLM drafts on its V2 "
        "model runner only, by methods mtp and eagle3 (dspark with some models). Use one of these with "
        "spec.engine.modelRunner: Auto, or write pipeline: 1 and a larger tensor",
        field=".parallelism.pipeline",
    )
    def _pipelines_draft_on_v2(self) -> bool:
        method = self.speculation.method
        if self.parallelism.pipeline == 1 or method is Method.NONE:
            return True
        return method in PIPELINED and self.engine.model_runner is not ModelRunner.V1

    @rule(
        f"{_OWN}!has(self.engine.loraAdapters) || size(self.engine.loraAdapters) == 0 || "
        "!has(self.speculation.verification) || self.speculation.verification == 'Fixed'",
        "spec.engine.loraAdapters: vLLM has no adaptive verification with LoRA; set "
        "speculation.verification: Fixed",
        field=".engine.loraAdapters",
    )
    def _adapters_are_verified_in_full(self) -> bool:
        return not self.engine.lora_adapters or not self.speculation.may_verify_adaptively

    @rule(
        f"{_OWN}!has(self.engine.loraAdapters) || self.engine.loraAdapters.all(a, "
        "(!has(self.model.servedName) || self.model.servedName != a.name) && "
        "(!has(self.model.servedAliases) || !(a.name in self.model.servedAliases)))",
        "spec.engine.loraAdapters: an adapter has a name of the model; give each a name of its own",
        field=".engine.loraAdapters",
    )
    def _adapters_have_names_of_their_own(self) -> bool:
        names = {self.model.served_name, *self.model.served_aliases}
        return names.isdisjoint(adapter.name for adapter in self.engine.lora_adapters)

    @rule(
        f"{_OWN}!has(self.speculation.requestLimits) || !has(self.engine.loraAdapters) || "
        "self.speculation.requestLimits.all(limit, !has(limit.when.loraAdapter) || "
        "self.engine.loraAdapters.exists(adapter, adapter.name == limit.when.loraAdapter))",
        "spec.speculation.requestLimits: a loraAdapter is not in engine.loraAdapters, so no request could "
        "meet it; write the name of one of them",
        field=".speculation.requestLimits",
    )
    def _limited_adapters_are_loaded(self) -> bool:
        adapters = self.engine.lora_adapters
        limited = {limit.when.lora_adapter for limit in self.speculation.request_limits} - {None}
        return not adapters or limited <= {adapter.name for adapter in adapters}

    @rule(
        f"{_OWN}self.parallelism.nodes == 1 || self.rollout.onFailure == 'Hold'",
        "spec.rollout.onFailure: Outrider cannot return replicas of several nodes to the last good revision; "
        "write onFailure: Hold",
        field=".rollout.onFailure",
    )
    def _groups_are_held(self) -> bool:
        return self.parallelism.nodes == 1 or self.rollout.on_failure is OnFailure.HOLD

    @rule(
        f"{_OWN}self.parallelism.nodes == 1 || !has(self.speculation.tuning) || "
        f"({_TUNING}.actuation == 'Live' && {_TUNING}.structuralOff == 'Never' && "
        f"{_TUNING}.canary == 'Never')",
        "spec.speculation.tuning: Outrider tunes replicas of several nodes live only; write actuation: Live, "
        "structuralOff: Never and canary: Never",
        field=".speculation.tuning",
    )
    def _groups_are_not_relaunched(self) -> bool:
        tuning = self.speculation.tuning
        ways = (tuning.actuation, tuning.structural_off, tuning.canary)
        return self.parallelism.nodes == 1 or ways == (Actuation.LIVE, StructuralOff.NEVER, Canary.NEVER)

    @rule(
        f"{_OWN}self.parallelism.nodes == 1 || !has(self.speculation.verification) || "
        "self.speculation.verification != 'Auto'",
        "spec.speculation.verification: Auto relaunches replicas, and Outrider does not relaunch those of "
        "several nodes; set Fixed or Adaptive",
        field=".speculation.verification",
    )
    def _groups_are_not_compared(self) -> bool:
        return self.parallelism.nodes == 1 or not self.speculation.compares_verification

    def _is_from(self, *places: str) -> bool:
        drafter = self.speculation.drafter
        return any(uri.startswith(places) for uri in (self.model.uri, drafter.uri if drafter else ""))
