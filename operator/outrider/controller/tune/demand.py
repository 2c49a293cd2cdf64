"""The number of replicas that the load of a model needs with the present schedule. Pure.

For one pod with a mean batch size B, W waiting requests and KV cache usage U, per data-parallel rank:

    C      = min(max_num_seqs, largest b with b (1 + K(b)) <= max_num_batched_tokens, B / U)
             without the first two: min(B if W >= 1, B / U)
    s      = (B + W) / C

C is the number of requests that the pod can hold. Its batch limit, its token budget and its KV cache bound
it. Each request takes 1 + K tokens of the token budget. U includes the look-ahead slots of drafts, because it
is measured with the present K. For an engine without a known limit, C is its batch size while requests wait.
Then

    saturation ratio  = mean of s over pods          1: full; above: requests wait
    required replicas = ceil(sum of s / 0.8)         at least 1

With latency targets it is the maximum of this and

    ceil(sum of (B + W) / b)    b: largest batch size at which some K keeps the pause between outputs
    ready replicas + 1          while the time to the first token is too long and requests wait

So replicas are added one by one for the first token, because no model says how many end the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from outrider.tuning.observe.window import Observation, Window
from outrider_protocol.schedule import Schedule

FULL = 0.8
"""The target saturation ratio of a replica: the rest serves bursts while another replica starts."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Limits of one engine."""

    max_num_seqs: int | None  # None: unknown
    max_num_batched_tokens: int | None = None  # None: not set, so the engine's default does not limit

    ranks: int = 1  # number of data-parallel ranks, which share the waiting requests

    def at(self, table: Schedule) -> int | None:
        """The maximum batch size of one step with this schedule; None if it is unknown."""
        budget = self.max_num_batched_tokens
        if budget is None:
            return self.max_num_seqs
        most = budget if self.max_num_seqs is None else self.max_num_seqs
        fits, low = 1, 1
        for row in table.rows:
            high = most if row.max_batch_size is None else row.max_batch_size
            largest = min(high, most, budget // (1 + row.num_speculative_tokens))
            if largest >= low:
                fits = largest
            low = high + 1
        return fits


@dataclass(frozen=True, slots=True)
class LatencyDemand:
    """What latency targets ask of the number of replicas."""

    largest_batch: float = 0.0  # that keeps the pause between outputs; 0: none, or no target
    first_token_late: bool = False  # the time to the first token is too long and requests wait


NO_TARGETS = LatencyDemand()


@dataclass(frozen=True, slots=True)
class Demand:
    """The load of a model, for autoscalers."""

    required_replicas: int
    saturation_ratio: float


def demand(
    observations: Sequence[Observation],
    *,
    replicas: int,
    table: Schedule,
    capacity: Capacity,
    latency: LatencyDemand = NO_TARGETS,
) -> Demand | None:
    """The demand by the windows of one tick. A pod without window or gauges counts as the mean of the others.

    replicas: number of ready pods.
    None if no pod has a window: an autoscaler must not read missing data as an idle model.
    """
    limit = capacity.at(table)
    windows = [seen for seen in observations if isinstance(seen, Window)]
    found = [_saturation(seen, limit, capacity.ranks) for seen in windows]
    known = [saturation for saturation in found if saturation is not None]
    if not known or replicas < 1:
        return None
    mean = sum(known) / len(known)
    # Rounding must not add a replica to a sum that is exactly full.
    by_load = max(1, ceil(round(mean * replicas / FULL, 6)))
    return Demand(max(by_load, _by_latency(windows, replicas, capacity.ranks, latency)), mean)


def _by_latency(windows: Sequence[Window], replicas: int, ranks: int, latency: LatencyDemand) -> int:
    """The replicas that the latency targets need; 0 if they ask for none."""
    late = replicas + 1 if latency.first_token_late else 0
    wanted = [_wanted(window, ranks) for window in windows if window.requests_waiting is not None]
    if latency.largest_batch < 1.0 or not wanted:
        return late
    mean = sum(wanted) / len(wanted)
    return max(late, ceil(round(mean * replicas / latency.largest_batch, 6)))


def _wanted(window: Window, ranks: int) -> float:
    """Requests of one rank that run or wait."""
    return (window.batch_size or 0.0) + (window.requests_waiting or 0.0) / ranks


def _saturation(window: Window, limit: int | None, ranks: int) -> float | None:
    if window.requests_waiting is None or window.kv_usage_ratio is None:
        return None
    running = window.batch_size or 0.0
    waiting = window.requests_waiting / ranks
    wanted = _wanted(window, ranks)
    by_kv = window.kv_usage_ratio * wanted / running if running > 0 else 0.0
    if limit is None:
        # A mean below 1 is the requests that arrive between two steps.
        return max(wanted / max(1.0, running), by_kv) if waiting >= 1.0 else by_kv
    return max(wanted / limit, by_kv)
