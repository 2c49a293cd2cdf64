"""The tuner's input: sums of one pod's counters over one span of time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from outrider.tuning.observe.latencies import Latencies

REQUESTS_WAITING = "vllm:num_requests_waiting"
KV_USAGE = "vllm:kv_cache_usage_perc"
"""Gauges that guardrails use, as their sentences name them."""


class GapReason(StrEnum):
    """Why a pod has no window. With a gap the tuner holds; with `TOO_SHORT` only if no other pod has news."""

    NO_SERIES = "NoSeries"
    """The source has no samples of this pod."""
    STALE = "Stale"
    """The newest sample is too old."""
    COUNTER_RESET = "CounterReset"
    """A counter decreased: the engine restarted within the window."""
    TOO_SHORT = "TooShort"
    """Fewer than two samples since the last window, or since the schedule changed."""
    CONTRADICTORY = "Contradictory"
    """Values that are not finite or negative, or sums that contradict each other."""
    UNREADABLE = "Unreadable"
    """The pod's metrics cannot be parsed, or are too many."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The reason why one pod has no usable measurement."""

    pod: str
    reason: GapReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """Exact sums of one pod over the steps of one batch bin that drafted and verified one K.

    Counted inside the engine, step by step; see docs/reference/metrics.md.
    """

    low: int  # smallest batch of the bin, in scheduled requests
    num_speculative_tokens: int
    steps: float
    step_seconds: float  # engine time
    requests: float  # scheduled requests, summed over steps
    emitted_tokens: float
    drafted_per_position: tuple[float, ...]
    accepted_per_position: tuple[float, ...]
    prefill_tokens: float
    context_tokens: float  # tokens in the KV cache of the scheduled requests, summed over steps
    trimmed_per_position: tuple[float, ...] = ()
    """Drafted tokens that adaptive verification left unverified; empty: it left none."""
    limited_per_position: tuple[float, ...] = ()
    """Scheduled requests whose own K limit leaves the position out, summed over steps; empty: none.

    Drafts of requests that verified fewer than others are in none of the sums by position above."""
    limited_accepted: float = 0.0
    """Accepted draft tokens of those requests."""

    @property
    def verified_per_position(self) -> tuple[float, ...]:
        """Drafted tokens that the target verified."""
        pairs = zip_longest(self.drafted_per_position, self.trimmed_per_position, fillvalue=0.0)
        return tuple(max(0.0, drafted - trimmed) for drafted, trimmed in pairs)


@dataclass(frozen=True, slots=True)
class Window:
    """Sums over one pod and one span of time, from reset-aware counter deltas.

    A request-step is one request taking part in one decode step of the engine.
    Sources per field are vLLM's own counters; see docs/reference/metrics.md.
    """

    pod: str  # namespace/name
    started_at: float  # unix seconds of the first sample
    ended_at: float  # unix seconds of the last sample
    engine_steps: float  # steps that gave at least one request a token
    request_steps: float
    first_tokens: float  # requests whose prompt was completed: one token each, without a request-step
    decode_seconds: float  # sum of inter-token latencies over request-steps
    decode_tokens: float  # generated tokens without each request's first one
    drafts: float  # request-steps with a draft
    draft_tokens: float
    accepted_tokens: float
    accepted_per_position: tuple[float, ...]
    prefill_tokens: float
    requests_waiting: float | None  # gauge at the end of the window; None: unknown, which is not 0
    kv_usage_ratio: float | None  # gauge at the end of the window, 0..1; None: unknown
    batch_low: float | None  # smallest mean batch size between two neighbouring samples
    batch_high: float | None  # largest; far from `batch_low` if the load changed within the window
    cells: tuple[Cell, ...] = ()  # empty if the engine does not count steps; otherwise they take precedence
    latencies: Latencies | None = None  # of the request-steps; None if the histogram was not read
    first_token_latencies: Latencies | None = None  # of the first tokens; None if it was not read
    survival: tuple[float, ...] | None = None
    """Probability by position that a draft token and all before it are accepted; None without a fast loop.

    The engine's fast loop estimates it over all steps, including those without drafts."""

    @property
    def verified_tokens(self) -> float:
        """Drafted tokens that the target verified: all, unless the engine verifies adaptively."""
        return max(0.0, self.draft_tokens - sum(sum(cell.trimmed_per_position) for cell in self.cells))

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return self.ended_at - self.started_at

    @property
    def batch_size(self) -> float | None:
        """Mean number of requests in a step, including prompts that end in it; None without traffic.

        The engine looks up K by the number of scheduled requests, including prompts.
        """
        requests = self.request_steps + self.first_tokens
        return requests / self.engine_steps if self.engine_steps > 0 else None

    @property
    def step_seconds(self) -> float | None:
        """Mean step time, weighted by batch size; None without traffic."""
        return self.decode_seconds / self.request_steps if self.request_steps > 0 else None

    @property
    def engine_seconds(self) -> float:
        """Estimated time in which the engine worked: steps x mean step time; 0 without traffic."""
        return self.engine_steps * (self.step_seconds or 0.0)

    @property
    def tokens(self) -> float:
        """Generated tokens, including the first ones."""
        return self.decode_tokens + self.first_tokens

    @property
    def tokens_per_step(self) -> float | None:
        """Mean tokens that one request gains in one step, bonus token included."""
        return self.decode_tokens / self.request_steps if self.request_steps > 0 else None

    @property
    def goodput(self) -> float | None:
        """Generated tokens per second of engine time; None without traffic."""
        return self.tokens / self.engine_seconds if self.engine_seconds > 0 else None

    @property
    def mean_k(self) -> float | None:
        """Mean draft length over request-steps, including those without a draft."""
        return self.draft_tokens / self.request_steps if self.request_steps > 0 else None


Observation = Window | Gap
