"""vLLM's scheduler, and one step of it, as the control and the drafter's skipping see them.

Source: vLLM 0.32.0, `vllm.v1.core.sched.scheduler.Scheduler`. ``schedule`` reads ``dynamic_sd_lookup`` once
per step. Its output (`vllm.v1.core.sched.output.SchedulerOutput`) does not change once the step was
scheduled, so it may be read later. ``update_from_output`` gives the tokens of each request, and vLLM's own
sums over drafts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import sub
from typing import Any, NamedTuple

from outrider_engine.control.limit_rules import Arrival
from outrider_engine.counting.measure import LimitedStep
from outrider_engine.counting.trimmed import TrimmedDrafts
from outrider_engine.idle_drafter.drafter_skip import BlockIds, DrafterOrder, DrafterSkip, Step
from outrider_engine.vllm_adapter.adaptive_verification import VERIFIED
from outrider_engine.vllm_adapter.support import READ_STATES

ORDER = "outrider_order"
"""Attribute of the scheduler's output, which carries the order to the workers."""

_NONE: Mapping[str, BlockIds] = {}
"""What most steps have of requests that begin or grow. To look for them costs every step."""


class Scheduler:
    """Implements `outrider_engine.control.lookup.Scheduler` for vLLM's scheduler."""

    def __init__(self, scheduler: Any) -> None:
        self._vllm_scheduler: Any = scheduler
        self._writes_down_drafts = False

    @property
    def lookup(self) -> list[int] | None:
        """K by number of scheduled requests; None where vLLM has no schedule."""
        lookup: list[int] | None = self._vllm_scheduler.dynamic_sd_lookup
        return lookup

    @lookup.setter
    def lookup(self, lookup: list[int] | None) -> None:
        self._vllm_scheduler.dynamic_sd_lookup = lookup

    def running_contexts(self) -> list[int]:
        """Computed tokens of each running request."""
        return [request.num_computed_tokens for request in self._vllm_scheduler.running]

    def output_tokens(self, request_id: str) -> int:
        """Tokens of the answer so far; 0 for a request that ended."""
        request = self._vllm_scheduler.requests.get(request_id)
        return 0 if request is None else int(request.num_output_tokens)

    @property
    def has_work(self) -> bool:
        """Whether the engine continues without waiting for requests."""
        return bool(self._vllm_scheduler.has_unfinished_requests())

    def withhold_drafts(self, limit_of: Callable[[str], int | None]) -> int:
        """Take draft tokens beyond the K limits of running requests away, before a step is scheduled.

        They are the last step's drafts, or where steps overlap the places that vLLM keeps for them. vLLM's
        scheduler takes drafts of any length, and the worker reads as many as were scheduled.

        limit_of: the K limit of a request; None for none.

        Returns:
            the number of draft tokens.
        """
        withheld = 0
        for request in self._vllm_scheduler.running:
            drafts = request.spec_token_ids
            if drafts and (limit := limit_of(request.request_id)) is not None and len(drafts) > limit:
                withheld += len(drafts) - limit
                # Where steps overlap, all requests have the same list.
                request.spec_token_ids = drafts[:limit]
        return withheld

    def write_down_drafts(
        self, counted: Callable[[str, int, int], None], failed: Callable[[Exception], None]
    ) -> None:
        """Have each draft written down as vLLM counts it. Its own sums stay as they are.

        counted: gets the request, its drafts without those that structured output forbids, and the accepted.
        failed: gets the error of a call of another shape.
        """
        if self._writes_down_drafts:
            return
        self._writes_down_drafts = True
        original = self._vllm_scheduler.make_spec_decoding_stats

        def make_spec_decoding_stats(*args: Any, **kwargs: Any) -> Any:
            try:
                request_id, forbidden = kwargs["request_id"], kwargs["num_invalid_spec_tokens"] or {}
                drafts = kwargs["num_draft_tokens"] - forbidden.get(request_id, 0)
                counted(request_id, drafts, kwargs["num_accepted_tokens"])
            except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
                failed(error)
            return original(*args, **kwargs)

        self._vllm_scheduler.make_spec_decoding_stats = make_spec_decoding_stats

    @property
    def sums_up_drafts(self) -> bool:
        """False where vLLM was launched without its own statistics."""
        return bool(self._vllm_scheduler.log_stats)

    def drafter_skip(self) -> DrafterSkip:
        """The records of missed tokens for this scheduler, which was just made."""
        scheduler: Any = self._vllm_scheduler
        config, groups = scheduler.vllm_config, scheduler.kv_cache_config.kv_cache_groups
        limits, drafts = config.scheduler_config, config.speculative_config.num_speculative_tokens
        return DrafterSkip(
            reads_states=config.speculative_config.method in READ_STATES,
            block_sizes=[group.kv_cache_spec.block_size for group in groups],
            max_tokens=limits.max_num_batched_tokens,
            max_drafts=drafts,
            unsure=drafts if limits.async_scheduling else 0,
        )

    def withhold_unread(self, unread_of: Callable[[BlockIds], set[int]]) -> None:
        """Take blocks that the drafter never read out of the prefix cache as a request gives them back.

        unread_of: these of all blocks of the request.
        """
        manager: Any = self._vllm_scheduler.kv_cache_manager
        original = manager.free

        def free(request: Any) -> None:
            if unread := unread_of(manager.get_block_ids(request.request_id)):
                manager.evict_blocks(unread)
            original(request)

        manager.free = free


def arrival_of(request: Any) -> Arrival:
    """A request that vLLM's scheduler takes, which has sampling parameters."""
    return Arrival(
        request.request_id,
        request.sampling_params.extra_args,
        prompt_tokens=request.num_prompt_tokens,
        max_tokens=request.max_tokens,
        lora_adapter=adapter_of(request),
        structured_output=request.use_structured_output,
    )


class StepResult(NamedTuple):
    """What a step gave.

    drafted, accepted: tokens by position, of the drafts that it was to verify.
    trimmed: of the drafted tokens, those that adaptive verification left out; empty where it left out none.
    limited: what K limits did; its drafts are in no other sum. None where no request had one.
    """

    emitted_tokens: int
    drafted: Sequence[int]
    accepted: Sequence[int]
    trimmed: Sequence[int] = ()
    limited: LimitedStep | None = None

    @classmethod
    def of(cls, result: Any, trimmed: Sequence[int] = (), limited: LimitedStep | None = None) -> StepResult:
        """Read what ``update_from_output`` gave, of which logprobs need not be held for long."""
        emitted, drafts = 0, None
        for outputs in result.values():
            emitted += sum([len(output.new_token_ids) for output in outputs.outputs])
            if outputs.scheduler_stats is not None:
                drafts = outputs.scheduler_stats.spec_decoding_stats or drafts
        if drafts is None:
            return cls(emitted, (), (), limited=limited)
        drafted, accepted = drafts.num_draft_tokens_per_pos, drafts.num_accepted_tokens_per_pos
        if limited is not None:
            drafted = [*map(sub, drafted, limited.drafted)]
            accepted = [*map(sub, accepted, limited.accepted)]
        return cls(emitted, drafted, accepted, trimmed, limited)


def trimmed_in(step: Any, drafts: TrimmedDrafts) -> Sequence[int] | None:
    """Trimmed drafts of a step by position, once vLLM has counted its drafts; None where they are missing.

    step: the output of the model runner.
    """
    return drafts.end_step(getattr(step, VERIFIED, None), step.req_id_to_index)


def adapter_of(request: Any) -> str | None:
    """The name of the request's LoRA adapter; None for the base model."""
    adapter = request.lora_request
    return None if adapter is None else str(adapter.lora_name)


class ScheduledStep:
    """What ``schedule`` gave. Read only as far as asked."""

    __slots__ = ("_prefill_tokens", "_vllm_output", "_vllm_scheduler")

    def __init__(self, scheduler: Any, output: Any) -> None:
        self._vllm_scheduler: Any = scheduler
        self._vllm_output: Any = output
        self._prefill_tokens: int | None = None

    @property
    def key(self) -> object:
        """The object by which the step is found again when it has its result."""
        return self._vllm_output

    def order_drafter(self, order: DrafterOrder) -> None:
        """Send the order to the workers along with the step."""
        setattr(self._vllm_output, ORDER, order)

    @property
    def request_ids(self) -> Mapping[str, int]:
        """The requests of the step, with the tokens that each computes."""
        tokens: Mapping[str, int] = self._vllm_output.num_scheduled_tokens
        return tokens

    @property
    def num_speculative_tokens(self) -> int:
        """The K that the step drafts."""
        k: int = self._vllm_output.num_spec_tokens_to_schedule
        return k

    def draft_at_most(self, k: int) -> None:
        """Have the step draft fewer tokens. The requests of the step must verify no more than K of them."""
        self._vllm_output.num_spec_tokens_to_schedule = k

    @property
    def decoding_requests(self) -> int:
        """Requests that may have drafts to verify: one without output is in its prompt."""
        outputs: list[int] = self._vllm_output.scheduled_cached_reqs.num_output_tokens
        return len(outputs) - outputs.count(0)

    def decoding_among(self, names: Collection[str]) -> int:
        """How many of `decoding_requests` have one of these names."""
        cached = self._vllm_output.scheduled_cached_reqs
        outputs = zip(cached.req_ids, cached.num_output_tokens, strict=True)
        return sum(count > 0 and name in names for name, count in outputs)

    @property
    def new_requests(self) -> int:
        """Number of requests in their first step."""
        return len(self._vllm_output.scheduled_new_reqs)

    @property
    def context_tokens(self) -> int:
        """Tokens of its requests in the KV cache as the step begins."""
        output: Any = self._vllm_output
        cached, new = output.scheduled_cached_reqs.num_computed_tokens, output.scheduled_new_reqs
        return int(sum(cached) + sum(request.num_computed_tokens for request in new))

    @property
    def prefill_tokens(self) -> int:
        """Computed tokens of this step that were known before."""
        if self._prefill_tokens is None:
            self._prefill_tokens = _prefill_tokens(self._vllm_output)
        return self._prefill_tokens

    @property
    def idle(self) -> bool:
        """It drafts nothing, and no request computes a token that was known before."""
        return self.num_speculative_tokens == 0 and bool(self.request_ids) and self.prefill_tokens == 0

    @property
    def gone(self) -> Iterable[str]:
        """Requests that ended since the step before."""
        gone: Iterable[str] = self._vllm_output.finished_req_ids
        return gone

    def for_drafter(self) -> Step:
        """The step as `DrafterSkip` needs it."""
        scheduler, output = self._vllm_scheduler, self._vllm_output
        cached, new = output.scheduled_cached_reqs, output.scheduled_new_reqs
        computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        computed |= {one.req_id: one.num_computed_tokens for one in new}
        return Step(
            num_speculative_tokens=self.num_speculative_tokens,
            drafter_can_run=self._drafter_can_run(computed),
            num_tokens=output.total_num_scheduled_tokens,
            computed=computed,
            gone=[*self.gone, *(output.preempted_req_ids or ())],
            begun=_begun(cached, new),
            grown=_grown(cached),
            text=self._text,
            blocks=scheduler.kv_cache_manager.get_block_ids,
        )

    def _text(self, name: str, begin: int, end: int) -> Sequence[int]:
        """See `Step`. Workers of the V2 runner have the text, also the tokens that are not known here yet."""
        if self._vllm_scheduler.use_v2_model_runner:
            return range(begin, end)
        return list(self._vllm_scheduler.requests[name].all_token_ids[begin:end])

    def _drafter_can_run(self, computed: Mapping[str, int]) -> bool:
        """Whether vLLM calls the drafter. V1 does not where a request nears the end of its context."""
        if self._vllm_scheduler.use_v2_model_runner:
            return True
        config: Any = self._vllm_scheduler.vllm_config.speculative_config
        room: int = config.draft_model_config.max_model_len - config.num_speculative_tokens
        tokens = self.request_ids
        if max(computed.values(), default=0) + max(tokens.values(), default=0) <= room:
            return True
        return all(number + tokens[name] <= room for name, number in computed.items())


def _begun(cached: Any, new: Any) -> Mapping[str, BlockIds]:
    if not (new or cached.resumed_req_ids):
        return _NONE
    resumed = {
        name: blocks
        for name, blocks in zip(cached.req_ids, cached.new_block_ids, strict=True)
        if name in cached.resumed_req_ids
    }
    return resumed | {one.req_id: one.block_ids for one in new}


def _grown(cached: Any) -> Mapping[str, BlockIds]:
    if cached.new_block_ids.count(None) == len(cached.new_block_ids):
        return _NONE
    return {
        name: blocks
        for name, blocks in zip(cached.req_ids, cached.new_block_ids, strict=True)
        if blocks is not None and name not in cached.resumed_req_ids
    }


def _prefill_tokens(output: Any) -> int:
    """A decoding request computes one token beside its drafts, and a request without output is a prompt."""
    tokens, new, cached = output.num_scheduled_tokens, output.scheduled_new_reqs, output.scheduled_cached_reqs
    drafts = output.scheduled_spec_decode_tokens
    decoding = len(tokens) + sum(map(len, drafts.values()))
    if output.total_num_scheduled_tokens == decoding and not new and 0 not in cached.num_output_tokens:
        return 0
    prefill: int = sum(tokens[request.req_id] for request in new)
    for request_id, outputs in zip(cached.req_ids, cached.num_output_tokens, strict=True):
        computed = tokens[request_id]
        if outputs == 0 or computed - len(drafts.get(request_id, ())) > 1:
            prefill += computed
    return prefill
