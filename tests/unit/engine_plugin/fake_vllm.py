"""Stand-ins of the shape of vLLM's scheduler and engine core. Each test gets classes of its own, since
attaching changes them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import SimpleNamespace
from typing import Any

from outrider_engine.control.verbs import Verb
from outrider_engine.vllm_adapter.engine_core import attach
from outrider_protocol.control_api import Refusal
from tests.unit.engine_plugin.factories import LAUNCHED, MAX_NUM_SEQS


class CUDAGraphMode(Enum):
    """Some of vLLM's; without graphs it is false."""

    NONE = 0
    PIECEWISE = 1
    FULL_AND_PIECEWISE = (2, 1)

    def __bool__(self) -> bool:
        return self is not CUDAGraphMode.NONE


def a_drafter(**overrides: object) -> SimpleNamespace:
    """The configuration of a draft model whose attention sees the whole text."""
    values: dict[str, object] = {"max_model_len": 4096, "get_sliding_window": lambda: None}
    return SimpleNamespace(**(values | overrides))


def a_speculation(**overrides: object) -> SimpleNamespace:
    """vLLM's `SpeculativeConfig` of a draft model."""
    values: dict[str, object] = {
        "method": "draft_model",
        "num_speculative_tokens": 5,
        "parallel_drafting": False,
        "draft_model_config": a_drafter(),
    }
    return SimpleNamespace(**(values | overrides))


def some_config(**overrides: object) -> SimpleNamespace:
    """The part of vLLM's configuration that is read."""
    scheduling = SimpleNamespace(
        max_num_seqs=MAX_NUM_SEQS, max_num_batched_tokens=8192, async_scheduling=False
    )
    values: dict[str, object] = {
        "speculative_config": a_speculation(),
        "scheduler_config": scheduling,
        "model_config": SimpleNamespace(is_multimodal_model=False, max_model_len=512),
        "parallel_config": SimpleNamespace(
            data_parallel_size=1,
            pipeline_parallel_size=1,
            decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
        ),
        "cache_config": SimpleNamespace(num_gpu_blocks=1000, block_size=16),
        "use_v2_model_runner": False,
        "additional_config": {},
        "kv_transfer_config": None,
        "lora_config": None,
        "compilation_config": SimpleNamespace(cudagraph_mode=CUDAGraphMode.FULL_AND_PIECEWISE),
    }
    return SimpleNamespace(**(values | overrides))


@dataclass
class Plan:
    """What the next step of the fake does. It is the runner's output, too.

    drafts, accepted: per request that verifies some.
    outrider_verified, outrider_drafter_fault: what the plugin's part of the worker adds.
    aborted: requests that end while the step runs.
    """

    tokens: Mapping[str, int]
    new: Mapping[str, int] = field(default_factory=dict)
    """Computed tokens of requests that are scheduled for the first time."""
    computed: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, int] = field(default_factory=dict)
    drafts: Mapping[str, int] = field(default_factory=dict)
    accepted: Mapping[str, int] = field(default_factory=dict)
    emitted: Mapping[str, int] = field(default_factory=dict)
    gone: Sequence[str] = ()
    work_left: bool = True
    outrider_verified: Sequence[int] | None = None
    outrider_drafter_fault: str | None = None
    aborted: Sequence[str] = ()

    def with_drafts(self, left: Mapping[str, int]) -> Plan:
        """With no more drafts of a request than are left of those that it had."""

        def cut(counts: Mapping[str, int]) -> dict[str, int]:
            return {name: min(count, left.get(name, count)) for name, count in counts.items()}

        return replace(
            self, drafts={n: c for n, c in cut(self.drafts).items() if c}, accepted=cut(self.accepted)
        )

    @property
    def req_id_to_index(self) -> Mapping[str, int]:
        """The runner's order is not the scheduler's."""
        return {name: place for place, name in enumerate(sorted(self.tokens))}


def decoding(*names: str, drafts: int = 0, accepted: int = 0, context: int = 100, **more: Any) -> Plan:
    """A step in which each request decodes and verifies as many drafts."""
    return Plan(
        tokens=dict.fromkeys(names, 1 + drafts),
        computed=dict.fromkeys(names, context),
        outputs=dict.fromkeys(names, 7),
        drafts=dict.fromkeys(names, drafts) if drafts else {},
        accepted=dict.fromkeys(names, accepted) if drafts else {},
        emitted=dict.fromkeys(names, 1 + accepted),
        **more,
    )


def prompts(*names: str, tokens: int = 50) -> Plan:
    """A step in which new requests compute their whole prompts."""
    return Plan(
        tokens=dict.fromkeys(names, tokens),
        new=dict.fromkeys(names, 0),
        emitted=dict.fromkeys(names, 1),
    )


class Engine:
    """An engine core with its scheduler, and the plugin attached."""

    def __init__(
        self,
        vllm_config: object,
        *,
        log_stats: bool = True,
        launched: Sequence[int] | None = LAUNCHED,
    ) -> None:
        class Scheduler:
            def __init__(self, vllm_config: object) -> None:
                self.vllm_config = vllm_config
                self.use_v2_model_runner = getattr(vllm_config, "use_v2_model_runner", False)
                self.dynamic_sd_lookup = None if launched is None else list(launched)
                self.log_stats = log_stats
                self.work_left = True
                self.running: list[Any] = []
                group = SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=16))
                self.kv_cache_config = SimpleNamespace(kv_cache_groups=[group])
                self.kv_cache_manager = SimpleNamespace(get_block_ids=lambda _: ([],), free=lambda _: None)
                self.requests: dict[str, Any] = defaultdict(
                    lambda: SimpleNamespace(all_token_ids=list(range(4096)))
                )

            def add_request(self, request: Any) -> None:
                self.requests[request.request_id] = request

            def schedule(self, plan: Plan, throttle_prefills: bool = False) -> Any:
                left = {one.request_id: len(one.spec_token_ids) for one in self.running}
                self.running = running(plan)
                return scheduler_output(plan.with_drafts(left), self.dynamic_sd_lookup, throttle_prefills)

            def update_from_output(self, _: Any, plan: Plan) -> dict[int, Any]:
                self.work_left = plan.work_left
                for name in plan.drafts.keys() - set(plan.aborted):
                    self.make_spec_decoding_stats(
                        None,
                        num_draft_tokens=plan.drafts[name],
                        num_accepted_tokens=plan.accepted.get(name, 0),
                        num_invalid_spec_tokens=None,
                        request_id=name,
                    )
                return engine_core_outputs(plan, num_spec_tokens=5)

            def make_spec_decoding_stats(self, stats: object, **_: object) -> object:
                return stats

            def has_unfinished_requests(self) -> bool:
                return self.work_left

        class AsyncScheduler(Scheduler):
            pass

        class EngineCore:
            def __init__(self) -> None:
                self.scheduler = AsyncScheduler(vllm_config)
                self.asked_for_drafts = 0

            def post_step(self, model_executed: bool) -> None:
                self.asked_for_drafts += model_executed

        class EngineCoreProc(EngineCore):
            pass

        self.scheduler_class, self.engine_core_class = Scheduler, EngineCore
        self.attach()
        self.core: Any = EngineCoreProc()

    def attach(self) -> None:
        """Once more does no harm."""
        attach(self.engine_core_class, self.scheduler_class)

    def ask(self, verb: Verb[Any, Any], payload: object = None) -> Any:
        """What the API server gets from a verb."""
        answer = self.core.outrider_run(verb.name, payload)
        assert json.loads(json.dumps(answer)) == answer, "it must cross a process border"
        if "error" in answer:
            raise Refusal.from_wire(answer["error"])
        return answer["answer"]

    def add(
        self,
        name: str,
        extra_args: Mapping[str, object] | None = None,
        *,
        adapter: str | None = None,
        **fields: object,
    ) -> None:
        """A request arrives with these extra arguments, for the base model or for an adapter.

        fields: of vLLM's `Request`.
        """
        request: dict[str, object] = {
            "request_id": name,
            "sampling_params": SimpleNamespace(extra_args=extra_args),
            "num_prompt_tokens": 50,
            "num_output_tokens": 0,
            "max_tokens": 100,
            "lora_request": None if adapter is None else SimpleNamespace(lora_name=adapter),
            "use_structured_output": False,
        }
        self.core.scheduler.add_request(SimpleNamespace(**request | fields))

    def step(self, plan: Plan) -> Any:
        """One whole step, which verifies the drafts that the plugin leaves; what was scheduled."""
        self.core.scheduler.running = running(plan)
        scheduled = self.core.scheduler.schedule(plan)
        self.core.scheduler.update_from_output(scheduled, scheduled.plan)
        self.core.post_step(model_executed=True)
        return scheduled

    def lookup(self) -> list[int] | None:
        """What the next step would use, after its hook."""
        self.core.scheduler.schedule(Plan(tokens={}))
        lookup: list[int] | None = self.core.scheduler.dynamic_sd_lookup
        return lookup


def running(plan: Plan) -> list[Any]:
    """The requests of a step, with the drafts that they have before it."""
    return [
        SimpleNamespace(
            request_id=name,
            num_computed_tokens={**plan.new, **plan.computed}.get(name, 0),
            spec_token_ids=[-1] * plan.drafts.get(name, 0),
        )
        for name in plan.tokens
    ]


def scheduler_output(plan: Plan, lookup: list[int] | None, throttled: bool) -> SimpleNamespace:
    """vLLM's `SchedulerOutput`."""
    cached = [name for name in plan.tokens if name not in plan.new]
    k = 5 if lookup is None or not plan.tokens else lookup[len(plan.tokens)]
    return SimpleNamespace(
        scheduled_new_reqs=[
            SimpleNamespace(req_id=name, num_computed_tokens=computed, block_ids=([],))
            for name, computed in plan.new.items()
        ],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=cached,
            num_computed_tokens=[plan.computed[name] for name in cached],
            num_output_tokens=[plan.outputs[name] for name in cached],
            new_block_ids=[None] * len(cached),
            resumed_req_ids=set(),
        ),
        num_scheduled_tokens=dict(plan.tokens),
        total_num_scheduled_tokens=sum(plan.tokens.values()),
        scheduled_spec_decode_tokens={name: [-1] * count for name, count in plan.drafts.items()},
        finished_req_ids=set(plan.gone),
        preempted_req_ids=None,
        num_spec_tokens_to_schedule=k,
        throttled=throttled,
        plan=plan,
    )


def engine_core_outputs(plan: Plan, *, num_spec_tokens: int) -> dict[int, SimpleNamespace]:
    """vLLM's `EngineCoreOutputs` by client; the first one carries the statistics."""
    outputs = [SimpleNamespace(new_token_ids=[1] * count) for count in plan.emitted.values()]
    drafts = None
    if plan.drafts:
        drafted, accepted = (
            {name: count for name, count in counts.items() if name not in plan.aborted}
            for counts in (plan.drafts, plan.accepted)
        )
        drafts = SimpleNamespace(
            num_draft_tokens_per_pos=per_position(drafted, num_spec_tokens),
            num_accepted_tokens_per_pos=per_position(accepted, num_spec_tokens),
        )
    stats = SimpleNamespace(spec_decoding_stats=drafts)
    return {
        0: SimpleNamespace(outputs=outputs[::2], scheduler_stats=stats),
        1: SimpleNamespace(outputs=outputs[1::2], scheduler_stats=None),
    }


def per_position(counts: Mapping[str, int], num_spec_tokens: int) -> list[int]:
    """How many requests reach each position."""
    return [sum(count > position for count in counts.values()) for position in range(num_spec_tokens)]
