"""Rules that rest on a profile which was measured offline, before the engines served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from outrider.tuning.estimate.features import Array
from outrider.tuning.estimate.step_time_profile import MapCell, StepTimeProfile
from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider_lab.rivals.baselines import drafted
from outrider_lab.rivals.tuners import ScheduleRule
from outrider_protocol.schedule import Row, Schedule


@dataclass(frozen=True, slots=True)
class OfflineProfile:
    """Step times, and how well the text of the profile was drafted."""

    step_times: StepTimeProfile
    survival: tuple[float, ...]  # ratio of drafts whose position j was accepted, never rising

    def tokens(self, k: int) -> float:
        """Expected tokens of a request-step."""
        return 1.0 + sum(self.survival[:k])


def profiled_table(profile: OfflineProfile, law: Policy) -> Schedule:
    """`vllm-profile`: the schedule that an offline profile gives, for ever.

    For each profiled batch size it takes the K with the maximum of (1 + sum of acceptance by position) over
    the latency between tokens. Between two sizes the smaller one applies.
    Source: vllm-project/vllm, pull request 32374 and its tools. These take `batch_stats` (latency by batch
    size and K) and `acceptance_rate_per_pos` from their own runs.
    """
    contexts = [c.context for c in profile.step_times.cells]
    cells = [c for c in profile.step_times.cells if c.context == contexts[0] and c.k in law.candidates]
    sizes = sorted({round(c.batch_size) for c in cells})
    best = [_best(profile, [c for c in cells if round(c.batch_size) == size]) for size in sizes]
    uppers = [size - 1 for size in sizes[1:]]
    return Schedule(tuple(map(Row, (*uppers, None), best))).merged()


def _best(profile: OfflineProfile, cells: Sequence[MapCell]) -> int:
    return max(cells, key=lambda c: (profile.tokens(c.k) / c.step_seconds, -c.k)).k


class Goodput(ScheduleRule):
    """`turbospec`: the K with the highest goodput by a linear model and one acceptance rate.

        goodput = B (1 - a^(K+1)) / (1 - a) / T;  T = c0 + c1 (tokens in the cache) + c2 B (1 + K) + c3 K

    c: least squares on the offline profile. a: mean over recent drafts, one rate for every position.
    Source: Liu et al. 2024, arXiv 2406.14066 (SmartSpec, later TurboSpec). It fits the time model offline,
    and the rate is a moving average. While K is 0 the rate does not change.
    """

    KEEP = 0.8  # of the rate's weight, per tick

    def __init__(self, law: Policy, profile: OfflineProfile) -> None:
        self._law = law
        self._weights = _fitted(profile.step_times)
        first = profile.survival[0] if profile.survival else 0.0
        self._hits, self._tried = 10.0 * first, 10.0
        self._context = min((c.context or 0.0 for c in profile.step_times.cells), default=0.0)
        self.schedule = self._best_schedule()

    def follow(self, seen: Sequence[Window], now: float) -> None:  # noqa: ARG002
        """Follow the tokens that were checked: those accepted, and the first that was not."""
        drafts, tokens, accepted = drafted(seen)
        cells = [cell for window in seen for cell in window.cells]
        if (requests := sum(cell.requests for cell in cells)) > 0:
            self._context = sum(cell.context_tokens for cell in cells) / requests
        if drafts > 0:
            looked_at = min(tokens, accepted + drafts)
            self._hits = self.KEEP * self._hits + accepted
            self._tried = self.KEEP * self._tried + looked_at
        self.schedule = self._best_schedule()

    def _best_schedule(self) -> Schedule:
        rows = []
        for index in range(len(self._law.bins)):
            low, high = self._law.limits(index)
            rows.append(Row(high, self._best((low + (high or self._law.max_num_seqs)) / 2)))
        return Schedule(tuple(rows)).merged()

    def _best(self, batch: float) -> int:
        return max(self._law.candidates, key=lambda k: (self.promise(batch, k), -k))

    def promise(self, batch: float, k: int) -> float:
        """Return tokens per second at the present context."""
        rate = min(self._hits / self._tried, 0.999)
        tokens = (1 - rate ** (k + 1)) / (1 - rate)
        seconds = float(_terms(batch, k, self._context) @ self._weights)
        return batch * tokens / max(seconds, 1e-9)


def _terms(batch: float, k: int, context: float | None) -> Array:
    return np.array([1.0, batch * (context or 0.0), batch * (1 + k), float(k)])


def _fitted(step_times: StepTimeProfile) -> Array:
    """Relative errors count alike."""
    rows = np.array([_terms(c.batch_size, c.k, c.context) / c.step_seconds for c in step_times.cells])
    weights, *_ = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)
    found: Array = np.maximum(weights, 0.0)
    return found
