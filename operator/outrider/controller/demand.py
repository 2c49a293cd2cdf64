"""How many replicas the load of a model needs at the draft lengths in force. Pure.

For one pod with B requests in a step on average, W requests that wait and KV cache usage U:

    C      = min(max_num_seqs, largest b with b (1 + K(b)) <= max_num_batched_tokens, B / U)
    s      = (B + W) / C

C is how many requests the pod can hold: by its batch limit, by its token budget (each request
takes 1 + K tokens of it), and by its KV cache, look-ahead slots of drafts included, since U was
measured at the depth in force. Then

    saturation ratio  = mean of s over pods          1: full; above: requests wait
    required replicas = ceil(sum of s / 0.8)         at least 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from outrider.api.schedule import Schedule
from outrider.tuning.window import Observation, Window

FULL = 0.8
"""The saturation that a replica should have: room for bursts while another one starts."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Limits of one engine."""

    max_num_seqs: int
    max_num_batched_tokens: int | None = None  # None: not given, and the engine's default does not bind

    def at(self, table: Schedule) -> int:
        """The largest batch that one step can hold at these draft lengths."""
        budget = self.max_num_batched_tokens
        if budget is None:
            return self.max_num_seqs
        fits = (b for b in range(self.max_num_seqs, 0, -1) if b * (1 + table.k_at(b)) <= budget)
        return next(fits, 1)


@dataclass(frozen=True, slots=True)
class Demand:
    """What an autoscaler needs to know."""

    required_replicas: int
    saturation_ratio: float


def demand(
    observations: Sequence[Observation], *, replicas: int, table: Schedule, capacity: Capacity
) -> Demand | None:
    """From the windows of one tick; a pod without one counts like the others. None without any.

    replicas: ready pods.
    """
    windows = [seen for seen in observations if isinstance(seen, Window)]
    if not windows or replicas < 1:
        return None
    limit = capacity.at(table)
    mean = sum(_saturation(window, limit) for window in windows) / len(windows)
    # Rounding must not turn a sum that is just full into one more replica.
    return Demand(max(1, ceil(round(mean * replicas / FULL, 6))), mean)


def _saturation(window: Window, limit: int) -> float:
    running = window.batch_size or 0.0
    wanted = running + (window.requests_waiting or 0.0)
    by_kv = (window.kv_usage_ratio or 0.0) * wanted / running if running > 0 else 0.0
    return max(wanted / limit, by_kv)
