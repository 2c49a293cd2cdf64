"""Every number of the tuning law, with its unit and why it is what it is."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property

from outrider.api.schedule import geometric_bins


@dataclass(frozen=True)
class Policy:
    """What the law may do and how sure it has to be.

    Raises:
        ValueError: no candidates, not rising, a negative one, or no batch.
    """

    candidates: tuple[int, ...]
    """The K that the tuner may use, rising. All were launched, so all can be pushed."""
    max_num_seqs: int
    """Largest batch of the engine; fixes the batch bins."""

    min_gain: float = 0.03
    """Relative. Smaller gains are not worth a change: identical runs differ by that much."""
    confidence_sigmas: float = 2.0
    """A change needs a gain of this many standard errors."""
    confirm_ticks: int = 2
    """Neighbouring ticks in which a settled K must be beaten before it is replaced."""
    dwell_seconds: float = 60.0
    """A settled K stays this long in its bin, unless it is rolled back."""
    rollback_loss: float = 0.05
    """Relative. A new K that is slower than the one before by more than this goes back."""

    calibration_seconds: float = 30.0
    """Wall time for trials in a batch bin that is seen for the first time, at most."""
    refine_seconds: float = 20.0
    """Wall time in calibration after which close contenders get no second trial: being nearly
    as good, they cost less than the search."""
    trial_seconds: float = 2.0
    """Engine time that a trial measures at least, summed over pods: one window of a 4 s tick."""
    trial_steps: float = 10.0
    """Engine steps that a trial measures at least, so that a slow engine is not judged by a handful."""
    trial_timeout_seconds: float = 90.0
    """A trial without measurements for this long is given up, so that it cannot stick. A window
    needs two scrapes, so this allows for scrapes every 30 s."""
    eliminate_sigmas: float = 1.0
    """A candidate this many standard errors behind the best gets no second trial in calibration."""
    taught_loss: float = 0.15
    """Relative. A larger batch leaves less room for drafts. So a K that lost by more than this to a
    smaller one is not calibrated at larger batches, nor one that lost to a larger K at smaller
    batches. `inf` for engines where that does not hold (mixture of experts)."""
    probe_share: float = 0.03
    """Largest share of time for trials after calibration."""
    probe_seconds: float = 20.0
    """Wall time of one probe at most; a promising K is measured until then."""
    probe_backoff_limit: int = 4
    """The pause between probes doubles after each lost one, at most this often."""

    noise: float = 0.05
    """Relative standard deviation of the goodput of 10 s; it falls with the root of time."""
    acceptance_noise: float = 0.06
    """Absolute standard deviation of the acceptance rate of one tick: prompts differ."""
    half_life_seconds: float = 600.0
    """Measurements lose half their weight in this time."""
    drift_slack: float = 0.5
    """CUSUM slack in standard deviations: half the smallest shift worth finding."""
    drift_threshold: float = 6.0
    """CUSUM threshold in standard deviations: a false alarm in some thousand ticks."""

    draft_length_tolerance: float = 0.15
    """Relative, at least 0.25 tokens. Drafts whose mean length is further from the table's K
    were made with several K."""
    min_draft_share: float = 0.7
    """Share of request-steps that have a draft where K > 0. 0 for drafters that may find none (ngram)."""
    collapse_ratio: float = 0.3
    """Acceptance of the first position below this share of its own history: suspect the outputs."""

    def __post_init__(self) -> None:
        if (
            not self.candidates
            or self.candidates[0] < 0
            or list(self.candidates) != sorted(set(self.candidates))
        ):
            raise ValueError("candidates must be whole numbers from 0, rising")
        if self.max_num_seqs < 1:
            raise ValueError("max_num_seqs must be at least 1")

    @cached_property
    def bins(self) -> tuple[int, ...]:
        """Upper edges (inclusive) of the batch bins; the last bin is open."""
        return geometric_bins(self.max_num_seqs)

    def bin_of(self, batch_size: float) -> int:
        """Index of the bin that a batch belongs to; means are rounded, since engines count requests."""
        return min(bisect_left(self.bins, round(batch_size)), len(self.bins) - 1)

    def limits(self, index: int) -> tuple[int, int | None]:
        """Smallest and largest batch of a bin; the last bin is open."""
        low = 1 if index == 0 else self.bins[index - 1] + 1
        return low, None if index == len(self.bins) - 1 else self.bins[index]

    def label(self, index: int) -> str:
        """A bin as people write it: ``1``, ``7-12``, ``25+``."""
        low, high = self.limits(index)
        if high is None:
            return f"{low}+"
        return str(low) if low == high else f"{low}-{high}"

    def probe_pause(self, spent_seconds: float, *, lost: int) -> float:
        """Seconds until the next probe, so that probes of this length stay within their share."""
        if self.probe_share <= 0:
            return 0.0
        return spent_seconds / self.probe_share * 2.0 ** min(lost, self.probe_backoff_limit)

    def observing(self) -> Policy:
        """The same without any trial, for mode Observe."""
        return replace(self, calibration_seconds=0.0, probe_share=0.0)

    def allowed(self, k: int) -> int:
        """The largest candidate <= k; the smallest one if there is none."""
        return max((c for c in self.candidates if c <= k), default=self.candidates[0])
