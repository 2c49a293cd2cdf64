"""Exact sums over engine steps, per batch bin and K.

A step belongs to the bin of its number of scheduled requests. The schedule's K at a step is the number of
tokens that the drafter proposes; the next step verifies them. So a step has two K: the one that it verifies
and the one that it drafts. It belongs to K when it drafts K and every request in it that was in a step before
drafted K there too. Otherwise it is ``mixed``, mostly the one step after a change of K. Requests in their
first step agree with any K. Shortened or missing drafts count with the requested K. The steady state is never
mixed.

Pure except for its own sums: times are parameters. Runs on the engine core's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import deepcopy
from typing import NamedTuple, TypedDict

from outrider_protocol.bins import Bin, batch_bins, bin_of, geometric_bins

MAX_GAP_SECONDS = 1.0
"""A longer gap between two steps is a requested pause, which is not engine time."""

MAX_STEPS_IN_FLIGHT = 64
"""More than the depth of any pipeline. Older steps without a result are dropped."""


class CellSums(TypedDict):
    """Sums over the steps of one batch bin and K. ``numSpeculativeTokens`` is None for mixed steps.

    ``draftTokens``, ``trimmedTokens`` and ``acceptedTokens`` are per position; their lists are equally long.
    ``draftTokens`` were verified. ``trimmedTokens`` were drafted and left unverified. ``limitedRequests`` are
    those whose K limit leaves the position out, summed over steps. Drafts of requests that verified fewer
    than others are ``limitedDraftTokens`` and ``limitedAcceptedTokens``, and in no other sum.
    """

    minBatchSize: int
    maxBatchSize: int | None
    numSpeculativeTokens: int | None
    steps: int
    stepSeconds: float
    scheduledRequests: int
    emittedTokens: int
    prefillTokens: int
    contextTokens: int
    draftTokens: list[int]
    trimmedTokens: list[int]
    acceptedTokens: list[int]
    limitedRequests: list[int]
    limitedDraftTokens: list[int]
    limitedAcceptedTokens: list[int]


class LimitedStep(NamedTuple):
    """What K limits did in one step, by position.

    requests: whose limit leaves the position out.
    drafted, accepted: verified and accepted draft tokens of requests that verified fewer than others.
    """

    requests: Sequence[int]
    drafted: Sequence[int]
    accepted: Sequence[int]


class Step(NamedTuple):
    """One finished step, as a probe or the startup profile sees it. ``seconds`` is engine time."""

    batch_size: int
    num_speculative_tokens: int
    mixed: bool
    seconds: float
    emitted_tokens: int
    prefill_tokens: int = 0
    context_tokens: int = 0


MAX_WAITING = 64
"""Pieces of work in the backlog: two of each step."""


class _InFlight(NamedTuple):
    """A step that was scheduled and has no result yet. step: as far as it is known."""

    key: object
    step: Step
    began: float


class Meter:
    """Counts the steps of one scheduler.

    Engine time of a step begins at the end of the previous step, or at its own start after idle time. It ends
    with the step. So it excludes idle time and includes work between two steps. Where steps overlap, the sum
    is still the time that the engine was busy.

    drafts_ahead: a step drafts what the next one verifies. Otherwise a step verifies its own drafts, and only
        one that computes prompts is ``mixed``.
    """

    def __init__(self, max_num_seqs: int, num_speculative_tokens: int, *, drafts_ahead: bool = True) -> None:
        self._drafts_ahead = drafts_ahead
        self.hook_seconds = 0.0
        """Seconds in the plugin's own hooks, summed over steps."""
        self.longest_step_seconds = 0.0
        """Engine time. A push or a scrape may wait as long, since the core answers between two steps."""
        edges = geometric_bins(max_num_seqs)
        self._bin_of = [bin_of(size, edges) for size in range(max_num_seqs + 1)]
        self._mixed = num_speculative_tokens + 1
        self._cells = [
            [
                _empty_cell(batch, k, num_speculative_tokens)
                for k in (*range(num_speculative_tokens + 1), None)
            ]
            for batch in batch_bins(max_num_seqs)
        ]
        self._in_flight: deque[_InFlight] = deque(maxlen=MAX_STEPS_IN_FLIGHT)
        self._drafted: dict[str, int] = {}
        self._ended = 0.0
        self._busy = False

    def scheduled(
        self,
        key: object,
        *,
        request_ids: Collection[str],
        gone: Iterable[str],
        num_speculative_tokens: int,
        prefill_tokens: int,
        context_tokens: int,
        began: float,
    ) -> None:
        """A step was scheduled.

        key: the object by which `finished` finds the step again.
        gone: requests that ended since the previous step.
        num_speculative_tokens: the K that this step drafts.
        prefill_tokens: computed tokens that were known before: prompts, and tokens of a preempted request.
        context_tokens: tokens of these requests in the KV cache as the step begins.
        began: seconds, any clock that `finished` uses too.
        """
        drafted, k = self._drafted, num_speculative_tokens
        for request_id in gone:
            drafted.pop(request_id, None)
        if not request_ids:
            self._busy = False
            return
        if self._drafts_ahead:
            mixed = bool(set(map(drafted.get, request_ids)) - {None, k})
            drafted.update(dict.fromkeys(request_ids, k))
        else:
            mixed = prefill_tokens > 0
        without_pause = self._busy and began - self._ended < MAX_GAP_SECONDS
        step = Step(len(request_ids), k, mixed, 0.0, 0, prefill_tokens, context_tokens)
        self._in_flight.append(_InFlight(key, step, self._ended if without_pause else began))

    def finished(
        self,
        key: object,
        *,
        emitted_tokens: int,
        drafted: Sequence[int],
        accepted: Sequence[int],
        work_left: bool,
        ended: float,
        trimmed: Sequence[int] = (),
    ) -> Step | None:
        """Count the result of a step; None for a step that was not counted when it was scheduled.

        drafted, accepted: tokens per position that this step was to verify, and accepted.
        trimmed: drafted tokens per position that it left unverified; empty where it verified all.
        work_left: the engine continues without waiting for requests.
        """
        while self._in_flight and self._in_flight[0].key is not key:
            # A step without a result must not block the later ones.
            if not any(step.key is key for step in self._in_flight):
                return None
            self._in_flight.popleft()
        if not self._in_flight:
            return None
        _, step, began = self._in_flight.popleft()
        seconds = ended - max(self._ended, began)
        step = step._replace(seconds=seconds, emitted_tokens=emitted_tokens)
        self._ended, self._busy = ended, work_left
        self.longest_step_seconds = max(self.longest_step_seconds, seconds)
        cell = self._cell_of(step)
        cell["steps"] += 1
        cell["stepSeconds"] += seconds
        cell["scheduledRequests"] += step.batch_size
        cell["emittedTokens"] += emitted_tokens
        cell["prefillTokens"] += step.prefill_tokens
        cell["contextTokens"] += step.context_tokens
        for sums, tokens_by_position in ((cell["draftTokens"], drafted), (cell["acceptedTokens"], accepted)):
            for position, tokens in enumerate(tokens_by_position):
                sums[position] += tokens
        for position, tokens in enumerate(trimmed):
            cell["draftTokens"][position] -= tokens
            cell["trimmedTokens"][position] += tokens
        return step

    def count_limited(self, step: Step, limited: LimitedStep) -> None:
        """Add what K limits did in a step that `finished` has counted."""
        cell = self._cell_of(step)
        for sums, counts in (
            (cell["limitedRequests"], limited.requests),
            (cell["limitedDraftTokens"], limited.drafted),
            (cell["limitedAcceptedTokens"], limited.accepted),
        ):
            for position, count in enumerate(counts):
                sums[position] += count

    def _cell_of(self, step: Step) -> CellSums:
        cells = self._cells[self._bin_of[step.batch_size]]
        return cells[self._mixed if step.mixed else step.num_speculative_tokens]

    def forget(self) -> None:
        """Drop the steps in flight, before a time in which steps are not reported. The sums stay."""
        self._in_flight.clear()
        self._drafted.clear()
        self._busy = False

    def sums(self) -> list[CellSums]:
        """Every (bin, K) that had a step."""
        return deepcopy([cell for cells in self._cells for cell in cells if cell["steps"]])


def _empty_cell(batch: Bin, k: int | None, positions: int) -> CellSums:
    return CellSums(
        minBatchSize=batch.low,
        maxBatchSize=batch.high,
        numSpeculativeTokens=k,
        steps=0,
        stepSeconds=0.0,
        scheduledRequests=0,
        emittedTokens=0,
        prefillTokens=0,
        contextTokens=0,
        draftTokens=[0] * positions,
        trimmedTokens=[0] * positions,
        acceptedTokens=[0] * positions,
        limitedRequests=[0] * positions,
        limitedDraftTokens=[0] * positions,
        limitedAcceptedTokens=[0] * positions,
    )


class Backlog:
    """Work of steps that can wait: done in batches, or as soon as a request needs its result.

    Code that runs once in a step of ten milliseconds finds the processor's caches cold. It takes several
    times as long as in a row. Runs on the engine core's thread.

    failed: receives the error of a piece of work. The work behind it is dropped.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._waiting: list[tuple[Callable[..., None], tuple[object, ...]]] = []

    @property
    def is_full(self) -> bool:
        """Whether the limit of waiting work is reached."""
        return len(self._waiting) >= MAX_WAITING

    def put(self, work: Callable[..., None], *args: object) -> None:
        """Have this done later."""
        self._waiting.append((work, args))

    def work_off(self) -> None:
        """Do everything that waits. Never raises."""
        waiting, self._waiting = self._waiting, []
        try:
            for work, args in waiting:
                work(*args)
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self._failed(error)
