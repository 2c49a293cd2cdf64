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
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from outrider_protocol.bins import batch_bins, bin_of, geometric_bins

LONGEST_GAP_SECONDS = 1.0
"""A longer gap between two steps is a requested pause, which is not engine time."""

MOST_STEPS_IN_FLIGHT = 64
"""More than the depth of any pipeline. Older steps without a result are dropped."""


class CellSums(TypedDict):
    """Sums over the steps of one batch bin and K. ``numSpeculativeTokens`` is None for mixed steps.

    ``draftTokens`` and ``acceptedTokens`` are per position; their lists are equally long.
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
    acceptedTokens: list[int]


@dataclass(frozen=True, slots=True)
class Step:
    """One finished step, as a probe or the startup profile sees it. ``seconds`` is engine time."""

    batch_size: int
    num_speculative_tokens: int
    mixed: bool
    seconds: float
    emitted_tokens: int
    prefill_tokens: int = 0
    context_tokens: int = 0


@dataclass(slots=True)
class _Cell:
    """The running sums of one (bin, K)."""

    drafted: list[int]
    accepted: list[int]
    steps: int = 0
    seconds: float = 0.0
    requests: int = 0
    emitted: int = 0
    prefill: int = 0
    context: int = 0


@dataclass(slots=True)
class _InFlight:
    """A step that was scheduled and has no result yet."""

    key: object
    batch_size: int
    num_speculative_tokens: int
    mixed: bool
    prefill_tokens: int
    context_tokens: int
    began: float


class Meter:
    """Counts the steps of one scheduler.

    Engine time of a step begins at the end of the previous step, or at its own start after idle time. It ends
    with the step. So it excludes idle time and includes work between two steps. Where steps overlap, the sum
    is still the time that the engine was busy.
    """

    def __init__(self, max_num_seqs: int, num_speculative_tokens: int) -> None:
        self.hook_seconds = 0.0
        """Seconds in the plugin's own hooks, summed over steps."""
        self.longest_step_seconds = 0.0
        """Engine time. A push or a scrape may wait as long, since the core answers between two steps."""
        self._bins = batch_bins(max_num_seqs)
        self._bin_of = [bin_of(size, geometric_bins(max_num_seqs)) for size in range(max_num_seqs + 1)]
        self._mixed = num_speculative_tokens + 1
        positions = [0] * num_speculative_tokens
        self._cells = [
            [_Cell(positions.copy(), positions.copy()) for _ in range(num_speculative_tokens + 2)]
            for _ in self._bins
        ]
        self._in_flight: deque[_InFlight] = deque(maxlen=MOST_STEPS_IN_FLIGHT)
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
        others = set(map(drafted.get, request_ids)) - {None, k}
        drafted.update(dict.fromkeys(request_ids, k))
        without_pause = self._busy and began - self._ended < LONGEST_GAP_SECONDS
        self._in_flight.append(
            _InFlight(
                key=key,
                batch_size=len(request_ids),
                num_speculative_tokens=k,
                mixed=bool(others),
                prefill_tokens=prefill_tokens,
                context_tokens=context_tokens,
                began=self._ended if without_pause else began,
            )
        )

    def finished(
        self,
        key: object,
        *,
        emitted_tokens: int,
        drafted: Sequence[int],
        accepted: Sequence[int],
        work_left: bool,
        ended: float,
    ) -> Step | None:
        """Count the result of a step; None for a step that was not counted when it was scheduled.

        drafted, accepted: tokens per position that this step verified.
        work_left: the engine continues without waiting for requests.
        """
        while self._in_flight and self._in_flight[0].key is not key:
            # A step without a result must not block the later ones.
            if not any(step.key is key for step in self._in_flight):
                return None
            self._in_flight.popleft()
        if not self._in_flight:
            return None
        step = self._in_flight.popleft()
        seconds = ended - max(self._ended, step.began)
        self._ended, self._busy = ended, work_left
        self.longest_step_seconds = max(self.longest_step_seconds, seconds)
        cell = self._cells[self._bin_of[step.batch_size]][
            self._mixed if step.mixed else step.num_speculative_tokens
        ]
        cell.steps += 1
        cell.seconds += seconds
        cell.requests += step.batch_size
        cell.emitted += emitted_tokens
        cell.prefill += step.prefill_tokens
        cell.context += step.context_tokens
        for position, tokens in enumerate(drafted):
            cell.drafted[position] += tokens
        for position, tokens in enumerate(accepted):
            cell.accepted[position] += tokens
        return Step(
            batch_size=step.batch_size,
            num_speculative_tokens=step.num_speculative_tokens,
            mixed=step.mixed,
            seconds=seconds,
            emitted_tokens=emitted_tokens,
            prefill_tokens=step.prefill_tokens,
            context_tokens=step.context_tokens,
        )

    def forget(self) -> None:
        """Drop the steps in flight, before a time in which steps are not reported. The sums stay."""
        self._in_flight.clear()
        self._drafted.clear()
        self._busy = False

    def sums(self) -> list[CellSums]:
        """Every (bin, K) that had a step."""
        return [
            CellSums(
                minBatchSize=batch.low,
                maxBatchSize=batch.high,
                numSpeculativeTokens=None if k == self._mixed else k,
                steps=cell.steps,
                stepSeconds=cell.seconds,
                scheduledRequests=cell.requests,
                emittedTokens=cell.emitted,
                prefillTokens=cell.prefill,
                contextTokens=cell.context,
                draftTokens=cell.drafted.copy(),
                acceptedTokens=cell.accepted.copy(),
            )
            for batch, cells in zip(self._bins, self._cells, strict=True)
            for k, cell in enumerate(cells)
            if cell.steps
        ]
