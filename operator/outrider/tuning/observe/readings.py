"""What a tick's windows say: the steps of one pod in one batch bin with one K."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from math import log1p, log2
from operator import add

from outrider.tuning.bounded_types import MAX_BATCH
from outrider.tuning.observe.window import Cell, Window
from outrider.tuning.policy import Estimation, Policy
from outrider_protocol.schedule import Schedule

_SHORTEST_STEP, _MAX_STEP = 1e-6, 3600.0
"""Seconds. No engine is faster, and none that slow is worth tuning."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Sums over the steps that one pod made in one batch bin with one K."""

    pod: str
    bin: int
    k: int
    steps: float
    seconds: float  # engine time
    requests: float  # scheduled requests, summed over steps
    tokens: float  # emitted
    prefill_tokens: float
    context_tokens: float | None  # summed over steps; None if the engine does not count them
    drafted: tuple[float, ...]  # per position
    accepted: tuple[float, ...]
    at: float  # unix seconds
    verified_first: float | None = None
    """Drafts whose first token the target verified; None: all."""
    limited: tuple[float, ...] = ()
    """By position, the requests whose K limit leaves it out, summed over steps."""
    limited_accepted: float = 0.0
    """Accepted draft tokens of requests that verified fewer than others; `accepted` lacks them."""

    def plus(self, other: Reading) -> Reading:
        """Both together, of the same pod, bin, K and time."""
        context = other.context_tokens
        return replace(
            self,
            steps=self.steps + other.steps,
            seconds=self.seconds + other.seconds,
            requests=self.requests + other.requests,
            tokens=self.tokens + other.tokens,
            prefill_tokens=self.prefill_tokens + other.prefill_tokens,
            context_tokens=None if context is None else (self.context_tokens or 0.0) + context,
            drafted=tuple(map(add, self.drafted, other.drafted)),
            accepted=tuple(map(add, self.accepted, other.accepted)),
            verified_first=self.verified + other.verified,
            limited=summed(self.limited, other.limited),
            limited_accepted=self.limited_accepted + other.limited_accepted,
        )

    def part(self, share: float) -> Reading:
        """So much of it, with the same means. share: 0..1."""
        context = self.context_tokens
        return replace(
            self,
            steps=self.steps * share,
            seconds=self.seconds * share,
            requests=self.requests * share,
            tokens=self.tokens * share,
            prefill_tokens=self.prefill_tokens * share,
            context_tokens=None if context is None else context * share,
            drafted=tuple(count * share for count in self.drafted),
            accepted=tuple(count * share for count in self.accepted),
            verified_first=self.verified * share,
            limited=tuple(count * share for count in self.limited),
            limited_accepted=self.limited_accepted * share,
        )

    @property
    def verified(self) -> float:
        """Drafts whose first token the target verified."""
        return sum(self.drafted[:1]) if self.verified_first is None else self.verified_first

    @property
    def plausible(self) -> bool:
        """Whether an engine can have done it; the tuner takes logarithms of it."""
        return (
            self.seconds >= _SHORTEST_STEP
            and _SHORTEST_STEP <= self.step_seconds <= _MAX_STEP
            and 0.5 <= self.batch_size <= MAX_BATCH
        )

    @property
    def step_seconds(self) -> float:
        """Mean step time."""
        return self.seconds / self.steps

    @property
    def batch_size(self) -> float:
        """Mean number of scheduled requests."""
        return self.requests / self.steps

    @property
    def log_context(self) -> float | None:
        """log2 of the mean context of a request, in tokens."""
        if self.context_tokens is None or self.context_tokens < self.requests:
            return None
        return log2(self.context_tokens / self.requests)

    @property
    def log_prompts(self) -> float:
        """log of the tokens of a step over the tokens outside of prompts; 0 without prompts."""
        return log1p(self.prefill_tokens / (self.requests * (1 + self.k)))


def summed(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, ...]:
    """Sums by position; a shorter one has nothing beyond its end."""
    return tuple(map(sum, zip_longest(ours, theirs, fillvalue=0.0)))


@dataclass(frozen=True)
class Readings:
    """One tick of all pods."""

    rows: tuple[Reading, ...]
    mixed: int  # windows that speak about no single K
    exact: bool  # the engines count per (bin, K), so they can run probes
    survival: tuple[float, ...] | None = None
    """See `Window.survival`, averaged over the pods that have it; None where no engine chooses K itself."""

    @cached_property
    def bin(self) -> int | None:
        """The batch bin in which the engines spent most of their time; None without measurements."""
        seconds: defaultdict[int, float] = defaultdict(float)
        for row in self.rows:
            seconds[row.bin] += row.seconds
        return max(seconds, key=lambda index: (seconds[index], -index), default=None)

    def batch_size(self, index: int) -> float:
        """Mean number of scheduled requests in one batch bin, which has readings."""
        rows = self.of(index)
        return sum(r.requests for r in rows) / sum(r.steps for r in rows)

    def pods(self, index: int) -> list[str]:
        """The pods with readings in one batch bin, by name."""
        return sorted({row.pod for row in self.of(index)})

    def of(self, index: int) -> tuple[Reading, ...]:
        """The readings of one batch bin."""
        return tuple(row for row in self.rows if row.bin == index)


def read(windows: Sequence[Window], in_force: Schedule, policy: Policy) -> Readings:
    """Exact cells where a window has them; else the window as a whole, if it ran with one K."""
    rows: list[Reading] = []
    mixed, exact = 0, False
    for window in windows:
        if window.cells:
            exact = True
            rows += _of_cells(window, policy)
        elif window.batch_size is not None and window.engine_seconds > 0:
            k = in_force.k_at_mean(window.batch_size)
            row = _of_window(window, k, policy)
            if k in policy.candidates and row.plausible and _is_of_one_k(window, k, policy):
                rows.append(row)
            else:
                mixed += 1
    return Readings(tuple(rows), mixed, exact, _survival(windows))


def _survival(windows: Sequence[Window]) -> tuple[float, ...] | None:
    """The mean over pods, each by its request-steps."""
    found = [(w.survival, w.request_steps) for w in windows if w.survival and w.cells and w.request_steps > 0]
    total = sum(weight for _, weight in found)
    if not found:
        return None
    length = min(len(survival) for survival, _ in found)
    return tuple(sum(s[j] * weight for s, weight in found) / total for j in range(length))


def _of_cells(window: Window, policy: Policy) -> list[Reading]:
    """One per batch bin and K, into however many bins the engine divides its batches."""
    found: dict[tuple[int, int], Reading] = {}
    for cell in window.cells:
        if _usable(cell, policy):
            row = _of_cell(window, cell, policy)
            key = row.bin, row.k
            found[key] = found[key].plus(row) if key in found else row
    return [row for row in found.values() if row.plausible]


def _usable(cell: Cell, policy: Policy) -> bool:
    known = cell.num_speculative_tokens in policy.candidates
    return known and min(cell.steps, cell.step_seconds, cell.requests, cell.emitted_tokens) > 0


def _of_cell(window: Window, cell: Cell, policy: Policy) -> Reading:
    return Reading(
        pod=window.pod,
        bin=policy.bin_of(cell.low),
        k=cell.num_speculative_tokens,
        steps=cell.steps,
        seconds=cell.step_seconds,
        requests=cell.requests,
        tokens=cell.emitted_tokens,
        prefill_tokens=cell.prefill_tokens,
        context_tokens=cell.context_tokens,
        drafted=cell.drafted_per_position,
        accepted=cell.accepted_per_position,
        at=window.ended_at,
        verified_first=sum(cell.verified_per_position[:1]),
        limited=cell.limited_per_position,
        limited_accepted=cell.limited_accepted,
    )


def _of_window(window: Window, k: int, policy: Policy) -> Reading:
    batch_size = window.batch_size or 1.0
    return Reading(
        pod=window.pod,
        bin=policy.bin_of(batch_size),
        k=k,
        steps=window.engine_steps,
        seconds=window.engine_seconds,
        requests=batch_size * window.engine_steps,
        tokens=window.tokens,
        prefill_tokens=window.prefill_tokens,
        context_tokens=None,
        drafted=(window.drafts,) * min(k, len(window.accepted_per_position)),
        accepted=window.accepted_per_position[:k],
        at=window.ended_at,
    )


def _is_of_one_k(window: Window, k: int, policy: Policy) -> bool:
    return not _straddles(window, policy) and _ran_with(window, k, policy.estimation)


def _straddles(window: Window, policy: Policy) -> bool:
    """The load changed inside: its mean batch size never existed."""
    low, high = window.batch_low, window.batch_high
    if low is None or high is None:
        return False
    return policy.bin_of(low) != policy.bin_of(high) and high > 1.5 * low


def _ran_with(window: Window, k: int, estimation: Estimation) -> bool:
    """The drafts made agree with the schedule; otherwise it changed, or was not in force."""
    slack = max(0.25, estimation.draft_length_tolerance * k)
    if k == 0:
        return (window.mean_k or 0.0) <= slack
    if window.drafts < estimation.min_draft_share * window.request_steps or window.drafts <= 0:
        return False
    return abs(window.draft_tokens / window.drafts - k) <= slack
