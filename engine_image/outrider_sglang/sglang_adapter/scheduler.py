"""SGLang's scheduler, and one round of it, as the control sees them.

Source: SGLang 0.5.23. `sglang.srt.managers.scheduler.Scheduler` runs batches that either compute prompts or
decode. `EAGLEWorkerV2` asks for the steps of a decoding batch, drafts, and verifies in the same round.
`BatchResultProcessor` writes the accepted number of each request into the result. Where rounds overlap, the
next one is launched before that, and requests that have ended are part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple


class Scheduler:
    """Implements `outrider_engine.control.lookup.Scheduler` for SGLang's scheduler.

    lookup: at the launch; None where SGLang's adaptive mode is off.
    fixed_k: the K of an engine without that mode.
    alone: the engine has one rank. Otherwise a new lookup is in force only once all ranks have it.
    """

    def __init__(self, scheduler: Any, lookup: list[int] | None, *, fixed_k: int | None, alone: bool) -> None:
        self._sglang_scheduler: Any = scheduler
        self._lookup = self.in_force = lookup
        self._fixed_k = fixed_k
        self._alone = alone
        self._sent: list[int] | None = lookup

    @property
    def lookup(self) -> list[int] | None:
        """K by number of requests, as it was written last."""
        return self._lookup

    @lookup.setter
    def lookup(self, lookup: list[int] | None) -> None:
        self._lookup = lookup
        if self._alone:
            self.in_force = lookup

    def unsent(self) -> list[int] | None:
        """A written lookup that the other ranks do not have yet; each is returned once."""
        if self._alone or self._lookup is None or self._lookup is self._sent:
            return None
        self._sent = self._lookup
        return list(self._lookup)

    def adopt(self, lookup: list[int]) -> None:
        """Every rank of the group has this lookup now."""
        self.in_force = lookup

    def running_contexts(self) -> list[int]:
        """Tokens of each running request."""
        return [request.seqlen for request in self._sglang_scheduler.running_batch.reqs]

    @property
    def num_speculative_tokens(self) -> int:
        """The K in force: of the state that SGLang activated last, or of the launch."""
        if self._fixed_k is not None:
            return self._fixed_k
        return int(self._sglang_scheduler.draft_worker.speculative_num_steps)

    @property
    def has_work(self) -> bool:
        """Whether the engine continues without waiting for requests."""
        scheduler = self._sglang_scheduler
        running = scheduler.running_batch.reqs
        return bool(scheduler.waiting_queue) or any(not request.finished() for request in running)


@dataclass(frozen=True, slots=True)
class Round:
    """A batch as it is launched.

    decoding: its requests draft and verify. Otherwise it computes prompts.
    prefill_tokens: computed tokens of prompts.
    new_requests: requests without output yet.
    context_tokens: tokens of its requests.
    """

    names: Sequence[str]
    decoding: bool
    prefill_tokens: int
    new_requests: int
    context_tokens: int

    @classmethod
    def of(cls, batch: Any) -> Round | None:
        """Read a batch; None for one that computes nothing, such as an idle one."""
        mode, requests = batch.forward_mode, batch.reqs
        decoding = bool(mode.is_decode())
        if not requests or not (decoding or mode.is_extend()):
            return None
        return cls(
            [request.rid for request in requests],
            decoding,
            # A batch that has become a decoding one keeps the number of its prompts.
            0 if decoding else int(batch.extend_num_tokens or 0),
            0 if decoding else sum(not request.output_ids for request in requests),
            sum(request.seqlen for request in requests),
        )


class Reading(NamedTuple):
    """The requests of a batch before SGLang reads its result. live: whose drafts count."""

    requests: Sequence[Any]
    live: Sequence[bool]
    output_tokens: int

    @classmethod
    def of(cls, batch: Any) -> Reading:
        """Write down what the result will change."""
        requests = list(batch.reqs)
        live = [not (request.finished() or request.is_retracted) for request in requests]
        return cls(requests, live, _output_tokens(requests))

    def emitted_tokens(self) -> int:
        """Tokens that the requests have got since."""
        return _output_tokens(self.requests) - self.output_tokens

    def accepted(self, result: Any, k: int) -> tuple[Sequence[int], Sequence[int]]:
        """Drafted and accepted tokens by position; empty where the batch verified nothing."""
        counts = getattr(result, "num_correct_drafts_per_req_cpu", None)
        if counts is None:
            return (), ()
        found = list(compress(counts, self.live))
        return [len(found)] * k, [sum(count > position for count in found) for position in range(k)]


def _output_tokens(requests: Sequence[Any]) -> int:
    # SGLang keeps what the last round accepts beyond the end of an answer.
    return sum(len(request.output_ids_through_stop) for request in requests)
