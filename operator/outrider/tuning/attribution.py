"""Which K at which batch bin a tick's windows speak about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from outrider.api.schedule import Schedule
from outrider.tuning.estimate import Measured
from outrider.tuning.policy import Policy
from outrider.tuning.window import Window


@dataclass(frozen=True, slots=True)
class Readings:
    """One tick, pooled over pods."""

    measured: Mapping[tuple[int, int], Measured]  # by (bin, K)
    mixed: int  # windows that speak about no single K

    @property
    def current(self) -> tuple[int, int] | None:
        """The (bin, K) in which the engines spent most of their time; None without measurements."""
        return max(self.measured, key=lambda key: (self.measured[key].seconds, -key[0]), default=None)


def attribute(windows: Iterable[Window], in_force: Schedule, policy: Policy) -> Readings:
    """Each window to the bin of its mean batch size, if it ran with the table's K and nothing else."""
    kept: defaultdict[tuple[int, int], list[Window]] = defaultdict(list)
    mixed = 0
    for window in windows:
        if window.batch_size is None or window.engine_seconds <= 0:
            continue
        k = in_force.k_at(max(1, round(window.batch_size)))
        if k in policy.candidates and not _straddles(window, policy) and _ran_with(window, k, policy):
            kept[policy.bin_of(window.batch_size), k].append(window)
        else:
            mixed += 1
    return Readings({key: Measured.of(rows) for key, rows in sorted(kept.items())}, mixed)


def _straddles(window: Window, policy: Policy) -> bool:
    """The load changed inside: its mean batch size never existed."""
    low, high = window.batch_low, window.batch_high
    if low is None or high is None:
        return False
    return policy.bin_of(low) != policy.bin_of(high) and high > 1.5 * low


def _ran_with(window: Window, k: int, policy: Policy) -> bool:
    """The drafts made agree with the table; otherwise it changed, or was not in force."""
    slack = max(0.25, policy.draft_length_tolerance * k)
    if k == 0:
        return (window.mean_k or 0.0) <= slack
    if window.drafts < policy.min_draft_share * window.request_steps or window.drafts <= 0:
        return False
    return abs(window.draft_tokens / window.drafts - k) <= slack
