"""The durations of the tuning loop."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

MODELS_RENEWED_AT_ONCE = 32
"""Models whose leases are renewed at the same time, so that pushes to all keep their timeouts."""
_NUMBERS_SECONDS = 30.0
_WRITES_PER_SECOND = 5.0
"""Writes of one kind, for all models together. The API server evaluates the rules of the CRD at each one."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of the loop, in seconds."""

    tick: float  # time from one tick to the next
    push_lease: float  # time for which an engine keeps a pushed schedule without renewal
    settle: float  # time for which the tuner holds after the ready pods changed, so that the load can spread
    renewals: float = 3.0  # pushes of the same content within the time of a lease
    rest: float = 1.0  # time between two rounds of early ticks, and between the first two ticks
    early_tick: float = 3.0  # minimum time between two early ticks of one model, however often it changes
    starting_push: float = 1.0
    """Time between two pushes to a pod that starts. A server passes a readiness probe before it serves."""
    state_read: float = 1.0  # time that a tick waits for the stored state; the next tick looks again
    order: float = 5.0  # timeout of a launch order; every model waits for the end of the tick
    write: float = 20.0
    """Timeout of a background write. The next tick repeats a status or a state; an Event is lost."""
    stop: float = 3.0  # timeout of the last writes when the loop stops
    last_renewals: float = 2.0  # timeout of the renewals of all pushes when the loop stops
    cpu: float = 0.5
    """CPU time that one tick of one model may take. A usual tick with one pod takes about 3 ms."""

    pods_at_once: float = inf
    """Pods that one tick measures in time. With more of them, settled models take turns."""

    @property
    def renewal(self) -> float:
        """Minimum seconds from a confirmed push to its renewal, which comes with the next tick."""
        return self.push_lease / self.renewals - self.tick / 2

    @property
    def late_renewal(self) -> float:
        """Seconds from a confirmed push to its renewal where ticks come too late for it."""
        return max(self.push_lease / 2, self.renewal + 1.5 * self.tick)

    @property
    def max_sample_age(self) -> float:
        """Maximum age of a sample; older ones are stale."""
        return max(30.0, 3 * self.tick)

    @property
    def max_fetch(self) -> float:
        """Timeout of the metrics source. After late metrics, there is still time to renew the last push."""
        return (self.push_lease - self.tick) / 2


def numbers_interval(models: int) -> float:
    """Seconds between two writes of one kind for one of so many models, if only numbers changed."""
    return max(_NUMBERS_SECONDS, models / _WRITES_PER_SECOND)
