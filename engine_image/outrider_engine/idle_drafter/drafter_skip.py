"""Which steps skip the drafter of an engine, and when it processes what it missed.

A drafter has its own KV cache, so vLLM runs it with K=0, too. Here steps that only decode with K=0 skip it.
It processes what it missed in one pass: before it drafts again, and whenever it has missed `MAX_BEHIND`
tokens of the running requests. So its cache is complete for every request that it drafts for. Prompts always
pass the drafter.

Blocks of the KV cache outlive their requests and serve others as a prefix, with the gaps of the drafter in
them. So the blocks are recorded, and a request that reuses one has the same gap.

Some drafters also read the target's hidden states. For missed tokens the worker has kept them
(`hidden_state_cache`), for running requests only. Blocks that an ended request left unread never serve as a
prefix.

Pure except for its own state. Runs on the engine core's thread. A position counts the tokens of a request
from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

MAX_BEHIND = 2048
"""Maximum of missed tokens over all running requests: the work of a short prompt, and the hidden states to
keep."""

MAX_STEPS = 256
"""Maximum of steps in a row without the drafter where hidden states are kept. It bounds the part of an answer
that cannot serve as a prefix, and one pass in so many steps costs almost nothing."""

MAX_POSITION = 2**53

BlockIds: TypeAlias = Sequence[Sequence[int]]
"""Blocks of one request in the order of its tokens, by group of the KV cache."""


@dataclass(frozen=True, slots=True)
class DrafterOrder:
    """Extra work of the drafter in one step, beside what vLLM asks for.

    skip: it does not process the step's own tokens.
    missed: by request, the position of the first missed token that it processes before, and the tokens. Where
        the worker has the text, the range of their positions is in their place, and its end may be too high.
    behind: some request still has missed tokens after the step. In a step without an order none has.
    """

    skip: bool = False
    missed: Mapping[str, tuple[int, Sequence[int]]] = field(default_factory=dict)
    behind: bool = False


SKIP = DrafterOrder(skip=True, behind=True)


class Step(NamedTuple):
    """A scheduled step.

    num_speculative_tokens: the K that it drafts.
    drafter_can_run: whether vLLM runs the drafter; it does not where a request nears the end of its context.
    num_tokens: tokens that its requests compute.
    computed: its requests, with their tokens in the KV cache as it begins.
    gone: requests that ended or gave way since the step before.
    begun: requests in their first step, or in the first one after a preemption, with their blocks.
    grown: other requests that got blocks, with these.
    text: tokens of a request from one position to another, as far as they are known; or their positions, see
        `DrafterOrder`.
    blocks: all blocks of a request.
    """

    num_speculative_tokens: int
    drafter_can_run: bool
    num_tokens: int
    computed: Mapping[str, int]
    gone: Iterable[str]
    begun: Mapping[str, BlockIds]
    grown: Mapping[str, BlockIds]
    text: Callable[[str, int, int], Sequence[int]]
    blocks: Callable[[str], BlockIds]


class DrafterSkip:
    """The tokens that the drafter of one engine has missed.

    block_sizes: tokens per block, by group of the KV cache.
    max_tokens: maximum that the drafter can process in one pass, each request's next token included.
    max_drafts: maximum that a request can verify in one step, beside its one token.
    unsure: tokens by which a position may be too high, as drafts are still under verification.
    reads_states: the drafter needs the target's hidden states.
    """

    def __init__(
        self,
        *,
        block_sizes: Sequence[int],
        max_tokens: int,
        max_drafts: int,
        unsure: int = 0,
        reads_states: bool = False,
    ) -> None:
        self.steps_skipped = 0
        self.tokens_caught_up = 0
        self.left_out = False
        """Whether the latest step skips the drafter, and so has no drafts."""
        self._block_sizes = tuple(block_sizes)
        self._max_tokens = max_tokens
        self._max_behind = min(MAX_BEHIND, max_tokens // 2)
        self._max_steps = MAX_STEPS if reads_states else MAX_POSITION
        self._max_per_step = 1 + max_drafts
        self._unsure = unsure
        self.reads_states = reads_states
        # By request: the first position missed, and where the last step began that missed some. Kept apart,
        # so that a step without the drafter costs next to nothing per request.
        self._begins: dict[str, int] = {}
        self._latest: dict[str, int] = {}
        self._behind = 0
        self._steps = 0
        # By block of the cache, the first of its tokens that was missed.
        self._blocks: dict[int, int] = {}

    def scheduled(self, idle: bool, read: Callable[[], Step]) -> DrafterOrder | None:
        """The order for a step; None where the drafter does only what vLLM asks for.

        idle: it drafts nothing and only decodes.
        read: gives the step, which most steps do not need.
        """
        self.left_out = False
        if not (idle or self._begins or self._blocks):
            return None
        step = read()
        for request_id in step.gone:
            self._forget(request_id)
        self._take_over(step)
        if not self._begins:
            self._behind = self._steps = 0
        if idle and self._skip(step):
            return SKIP
        if not self._begins:
            return None
        # With K=0 the drafter runs for the prompts: a new request catches up on its prefix. Others wait,
        # unless hidden states must be kept for them.
        prompts_only = step.num_speculative_tokens == 0 and not idle
        names = step.begun if prompts_only and not self.reads_states else step.computed
        missed = self._catch_up(step, names) if step.drafter_can_run else {}
        skip = bool(missed) and idle and self._skip(step)
        return DrafterOrder(skip=skip, missed=missed, behind=bool(self._begins))

    def given_back(self, blocks: BlockIds) -> set[int]:
        """Those blocks of a request that ends whose tokens the drafter can never process."""
        unread = {block for ids in blocks for block in ids if block in self._blocks}
        self._unmark(unread)
        return unread

    def _skip(self, step: Step) -> bool:
        """Skip the drafter, unless it would miss too many tokens."""
        computed, missing = step.computed, step.num_tokens
        if not self._may_miss(step, missing):
            return False
        for name in computed.keys() - self._begins.keys():
            begin = self._begins[name] = max(0, computed[name] - self._unsure)
            self._blocks.update(self._from(step.blocks(name), begin))
        self._latest.update(computed)
        self._behind += missing
        self._steps += 1
        self.steps_skipped += 1
        self.left_out = True
        return True

    def _may_miss(self, step: Step, tokens: int) -> bool:
        if not step.drafter_can_run:
            # A worker keeps no states where vLLM does not call the drafter.
            return not self.reads_states
        return self._behind + tokens <= self._max_behind and self._steps < self._max_steps

    def _catch_up(self, step: Step, names: Iterable[str]) -> dict[str, tuple[int, Sequence[int]]]:
        """The missed tokens of these requests that one pass can process now."""
        left, self._steps = self._max_tokens, 0
        missed: dict[str, tuple[int, Sequence[int]]] = {}
        for name in names:
            if name not in self._begins or left < 2:
                continue
            begin, end = self._begins[name], self._end(name, step.computed[name])
            text = step.text(name, begin, min(end, begin + left - 1))
            if not text:
                continue
            missed[name] = begin, text
            left -= len(text) + 1
            if begin + len(text) < end:
                self._begins[name] = begin + len(text)
            else:
                self._forget(name)
                self._unmark(self._from(step.blocks(name), begin))
        self.tokens_caught_up += sum(len(text) for _, text in missed.values())
        self._behind = sum(self._end(name) - begin for name, begin in self._begins.items())
        return missed

    def _end(self, name: str, computed: int = MAX_POSITION) -> int:
        """The position after the last missed one, at most the position where a step begins."""
        return min(self._latest[name] + self._max_per_step, computed)

    def _forget(self, name: str) -> None:
        self._begins.pop(name, None)
        self._latest.pop(name, None)

    def _take_over(self, step: Step) -> None:
        """Record the blocks of a request: new ones, or a prefix with gaps."""
        for name, blocks in step.begun.items():
            self._forget(name)
            computed = step.computed[name]
            for size, ids in zip(self._block_sizes, blocks, strict=True):
                of_prefix = -(-computed // size)
                missed = [index for index, block in enumerate(ids[:of_prefix]) if block in self._blocks]
                if missed:
                    begin = missed[0] * size + self._blocks[ids[missed[0]]]
                    self._begins[name] = min(begin, self._begins.get(name, computed))
                    latest = min(computed, (missed[-1] + 1) * size) - self._max_per_step
                    self._latest[name] = max(latest, self._latest.get(name, latest))
                self._unmark(ids[of_prefix:])
        for name, blocks in step.grown.items():
            ids = [block for group in blocks for block in group]
            if name in self._begins:
                self._blocks.update(dict.fromkeys(ids, 0))
            else:
                self._unmark(ids)

    def _unmark(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            self._blocks.pop(block, None)

    def _from(self, blocks: BlockIds, position: int) -> Mapping[int, int]:
        """The blocks from this position on, each with the index of its first missed token."""
        return {
            block: position % size if index == 0 else 0
            for size, ids in zip(self._block_sizes, blocks, strict=True)
            for index, block in enumerate(ids[position // size :])
        }
