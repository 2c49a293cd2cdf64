"""One step of vLLM's scheduler as `drafter_skip` sees it, and what that needs at the start.

Source: vLLM 0.32.0, `vllm.v1.core.sched.output.SchedulerOutput`. Knows the inner names of the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from outrider_engine.control.support import READ_STATES
from outrider_engine.idle_drafter.drafter_skip import BlockIds, Following
from outrider_engine.vllm_adapter.prompts import prefill_tokens

_NONE: Mapping[str, BlockIds] = {}
"""What most steps have of requests that begin or grow. To look for them costs every step."""


def following_of(scheduler: Any) -> Following:
    """The books for a scheduler that was just made."""
    config, groups = scheduler.vllm_config, scheduler.kv_cache_config.kv_cache_groups
    limits, drafts = config.scheduler_config, config.speculative_config.num_speculative_tokens
    return Following(
        reads_states=config.speculative_config.method in READ_STATES,
        block_sizes=[group.kv_cache_spec.block_size for group in groups],
        most_tokens=limits.max_num_batched_tokens,
        most_drafts=drafts,
        unsure=drafts if limits.async_scheduling else 0,
    )


def withhold_unread(scheduler: Any, unread_of: Callable[[BlockIds], set[int]]) -> None:
    """Take blocks out of the prefix cache as a request gives them back, where its drafter never read them.

    unread_of: these of all blocks of the request.
    """
    manager = scheduler.kv_cache_manager
    original = manager.free

    def free(request: Any) -> None:
        if unread := unread_of(manager.get_block_ids(request.request_id)):
            manager.evict_blocks(unread)
        original(request)

    manager.free = free


class SchedulerStep:
    """Implements `drafter_skip.Step` on what ``schedule`` gave. Read only as far as asked."""

    __slots__ = ("_computed", "_prefill_tokens", "_vllm_output", "_vllm_scheduler")

    def __init__(self, scheduler: Any, output: Any) -> None:
        self._vllm_scheduler: Any = scheduler
        self._vllm_output: Any = output
        self._computed: dict[str, int] | None = None
        self._prefill_tokens: int | None = None

    @property
    def prefill_tokens(self) -> int:
        """See `outrider_engine.vllm_adapter.prompts.prefill_tokens`."""
        if self._prefill_tokens is None:
            self._prefill_tokens = prefill_tokens(self._vllm_output)
        return self._prefill_tokens

    @property
    def num_speculative_tokens(self) -> int:
        """See `Step`."""
        k: int = self._vllm_output.num_spec_tokens_to_schedule
        return k

    @property
    def only_decodes(self) -> bool:
        """See `Step`."""
        return bool(self._vllm_output.num_scheduled_tokens) and self.prefill_tokens == 0

    @property
    def drafter_can_run(self) -> bool:
        """See `Step`."""
        config: Any = self._vllm_scheduler.vllm_config.speculative_config
        room: int = config.draft_model_config.max_model_len - config.num_speculative_tokens
        tokens: Mapping[str, int] = self._vllm_output.num_scheduled_tokens
        if max(self.computed.values(), default=0) + max(tokens.values(), default=0) <= room:
            return True
        return all(computed + tokens[name] <= room for name, computed in self.computed.items())

    @property
    def gone(self) -> Iterable[str]:
        """See `Step`."""
        gone: Iterable[str] = self._vllm_output.finished_req_ids
        return gone

    @property
    def computed(self) -> Mapping[str, int]:
        """See `Step`."""
        if self._computed is None:
            cached, new = self._vllm_output.scheduled_cached_reqs, self._vllm_output.scheduled_new_reqs
            self._computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
            self._computed |= {one.req_id: one.num_computed_tokens for one in new}
        return self._computed

    @property
    def num_tokens(self) -> int:
        """See `Step`."""
        tokens: int = self._vllm_output.total_num_scheduled_tokens
        return tokens

    @property
    def begun(self) -> Mapping[str, BlockIds]:
        """See `Step`."""
        cached, new = self._vllm_output.scheduled_cached_reqs, self._vllm_output.scheduled_new_reqs
        if not (new or cached.resumed_req_ids):
            return _NONE
        resumed = {
            name: blocks
            for name, blocks in zip(cached.req_ids, cached.new_block_ids, strict=True)
            if name in cached.resumed_req_ids
        }
        return resumed | {one.req_id: one.block_ids for one in new}

    @property
    def grown(self) -> Mapping[str, BlockIds]:
        """See `Step`."""
        cached = self._vllm_output.scheduled_cached_reqs
        if cached.new_block_ids.count(None) == len(cached.new_block_ids):
            return _NONE
        return {
            name: blocks
            for name, blocks in zip(cached.req_ids, cached.new_block_ids, strict=True)
            if blocks is not None and name not in cached.resumed_req_ids
        }

    def text(self, request_id: str, begin: int, end: int) -> list[int]:
        """See `Step`."""
        return list(self._vllm_scheduler.requests[request_id].all_token_ids[begin:end])

    def blocks(self, request_id: str) -> BlockIds:
        """See `Step`."""
        blocks: BlockIds = self._vllm_scheduler.kv_cache_manager.get_block_ids(request_id)
        return blocks
