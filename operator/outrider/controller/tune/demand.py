"""How many replicas the load of a model needs at the draft lengths in force. Pure.

For one pod with B requests in a step on average, W requests that wait and KV cache usage U, of each
data-parallel rank:

    C      = min(max_num_seqs, largest b with b (1 + K(b)) <= max_num_batched_tokens, B / U)
             nobody says the first two: min(B where W >= 1, B / U)
    s      = (B + W) / C

C is how many requests the pod can hold: by its batch limit, by its token budget (each request
takes 1 + K tokens of it), and by its KV cache, look-ahead slots of drafts included, since U was
measured at the depth in force. An engine that does not say its limit holds what it runs while others
wait. Then

    saturation ratio  = mean of s over pods          1: full; above: requests wait
    required replicas = ceil(sum of s / 0.8)         at least 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from outrider.api.schedule import Schedule
from outrider.tuning.observe.window import Observation, Window

FULL = 0.8
"""The saturation that a replica should have: room for bursts while another one starts."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Limits of one engine."""

    max_num_seqs: int | None  # None: nobody says it
    max_num_batched_tokens: int | None = None  # None: not given, and the engine's default does not bind

    ranks: int = 1
    """Data-parallel ones, that share what waits."""

    def at(self, table: Schedule) -> int | None:
        """The largest batch that one step can hold at these draft lengths; None where nobody knows."""
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
class Demand:
    """What an autoscaler needs to know."""

    required_replicas: int
    saturation_ratio: float


def demand(
    observations: Sequence[Observation], *, replicas: int, table: Schedule, capacity: Capacity
) -> Demand | None:
    """From the windows of one tick; a pod without one, or without its gauges, counts like the others.

    replicas: ready pods.
    None where no pod tells: an autoscaler must not take silence for an idle model.
    """
    limit = capacity.at(table)
    told = [_saturation(seen, limit, capacity.ranks) for seen in observations if isinstance(seen, Window)]
    known = [saturation for saturation in told if saturation is not None]
    if not known or replicas < 1:
        return None
    mean = sum(known) / len(known)
    # Rounding must not turn a sum that is just full into one more replica.
    return Demand(max(1, ceil(round(mean * replicas / FULL, 6))), mean)


def _saturation(window: Window, limit: int | None, ranks: int) -> float | None:
    if window.requests_waiting is None or window.kv_usage_ratio is None:
        return None
    running = window.batch_size or 0.0
    waiting = window.requests_waiting / ranks
    wanted = running + waiting
    by_kv = window.kv_usage_ratio * wanted / running if running > 0 else 0.0
    if limit is None:
        # Less than one on average is what arrives between two steps.
        return max(wanted / max(1.0, running), by_kv) if waiting >= 1.0 else by_kv
    return max(wanted / limit, by_kv)
