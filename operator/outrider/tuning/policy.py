"""Every number of the tuning law, with its unit and why it is what it is, by what it serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TypeVar

from outrider.api.schedule import bin_low, bin_of, geometric_bins

NOISE_SECONDS = 10.0
"""Relative noise is that of a measurement of this length; it falls with the root of time."""


@dataclass(frozen=True, slots=True)
class Estimation:
    """What a measurement counts for: windows, acceptance, step times, the tax of K=0."""

    draft_length_tolerance: float = 0.15
    """Relative, at least 0.25 tokens. Drafts whose mean length is further from the table's K
    were made with several K."""
    min_draft_share: float = 0.7
    """Share of request-steps that have a draft where K > 0. 0 for drafters that may find none (ngram)."""
    noise: float = 0.05
    """Relative standard deviation of the mean step time of `NOISE_SECONDS`."""
    half_life_seconds: float = 1800.0
    """Step times lose half their weight in this time."""
    batch_octaves: float = 2.0
    """Batch sizes this many octaves apart are nearly half as alike as equal ones."""
    level_deviation: float = 0.20
    """Log step time that neighbouring batch sizes share and the linear model misses."""
    depth_deviation: float = 0.02
    """Log step time of one K, at every batch size, that the linear model misses."""
    bend_deviation: float = 0.12
    """The same at neighbouring batch sizes only."""
    cell_deviation: float = 0.04
    """Log step time of one K at one batch size that its neighbours do not share."""
    map_trust: float = 0.9
    """How likely a map of step times is of these engines, before any live step."""
    map_scale_deviation: float = 0.3
    """Log step time by which live steps differ from a map at every place; pods differ as much, and no choice
    depends on it."""
    map_batch_deviation: float = 0.02
    """The same per octave of batch size."""
    map_depth_deviation: float = 0.02
    """The same per log of 1 + K."""
    drift_slack: float = 0.5
    """CUSUM slack in standard deviations: half the smallest shift worth finding."""
    drift_threshold: float = 9.0
    """CUSUM threshold in standard deviations: a false alarm in some thousand ticks."""
    drift_keep: float = 0.05
    """Weight that is left to step times when the engines changed."""
    acceptance_noise: float = 0.06
    """Absolute standard deviation of the acceptance rate of one tick: prompts differ."""
    acceptance_half_life_seconds: float = 30.0
    """Acceptance follows the texts, so it is forgotten fast; counts are large."""
    undrafted_half_life_seconds: float = 60.0
    """Acceptance of positions that are not drafted loses half its weight in this time, so that K=0 and short
    drafts are left again once the text may have changed."""
    shift_drafts: float = 40.0
    """Drafts before and after that it takes to tell one text from another."""
    k0_tax: float = 0.10
    """Relative. What K=0 costs against a launch without a drafter, as long as nobody measured it, where the
    drafter follows every step (published: 4 to 25 %)."""
    k0_tax_idle: float = 0.05
    """The same where the drafter makes no pass while K is 0."""
    k0_tax_deviation: float = 0.08
    """How unsure that is."""
    tax_half_life_seconds: float = 86400.0
    """What a launch without drafter told of the tax loses half its weight in this time."""
    tax_measured_share: float = 0.8
    """The tax counts as measured once its deviation is below this share of `k0_tax_deviation`."""
    speedup_known: float = 0.25
    """Relative. A speedup counts as known once its 95 % interval reaches no further up than this."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How sure a better K has to be, and how often K may change."""

    min_gain: float = 0.01
    """Relative. Smaller gains are not worth a change."""
    confidence_sigmas: float = 1.0
    """A settled K gives way when the gain is this many standard errors."""
    caution_sigmas: float = 0.5
    """A bin that is not settled leaves its K when the gain is this many standard errors; a smaller K
    than the one in force needs none."""
    untried: bool = False
    """Whether a K may be chosen that was never measured: for engines whose table changes with a restart
    only, where nothing else would ever try it."""
    untried_sigmas: float = 0.25
    """A K that was not measured at this batch size needs a gain of this many standard errors: such
    guesses are never sure, and going back is quick."""
    dwell_seconds: float = 20.0
    """A settled K stays this long in its bin, unless it is rolled back or the engines changed."""
    rollback_loss: float = 0.05
    """Relative. A new K that is slower than the one before by more than this goes back at once."""
    switches_per_hour: float = 6.0
    """Changes of a settled K in one bin, at most. Roll-backs are free."""
    switches_to_settle: float = 3.0
    """So many more while a bin is not settled."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """How long other K are tried."""

    calibration_seconds: float = 30.0
    """Time for slices of other K in a batch bin that is seen for the first time, at most."""
    recalibration_seconds: float = 15.0
    """The same when the engines or the texts changed."""
    probe_share: float = 0.03
    """Largest share of time for slices of other K after calibration."""
    probe_burst_seconds: float = 20.0
    """Probe time that can be saved up, at most."""
    slice_seconds: float = 1.0
    """Engine time of one slice."""
    slice_steps: float = 10.0
    """Engine steps that a slice has at least, so that a slow engine is not judged by a handful."""
    longest_slice_seconds: float = 5.0
    """... but never longer than this."""
    horizon_seconds: float = 1200.0
    """What is learnt is taken to be of use for this long."""
    trial_timeout_seconds: float = 90.0
    """A trial without measurements for this long is given up, so that it cannot stick. A window
    needs two scrapes, so this allows for scrapes every 30 s."""


@dataclass(frozen=True, slots=True)
class Safety:
    """What tuning may cost, and what forbids it."""

    loss_budget: float = 0.01
    """Relative, over `loss_seconds`. Slices may cost this much against no speculation, at most: half
    of what the safety rule allows."""
    loss_sigmas: float = 1.0
    """The cost of a slice is feared to be this many standard errors above what is believed."""
    safe_loss: float = 0.02
    """Relative. A K > 0 must not lose more than this against no speculation..."""
    safe_sigmas: float = 1.0
    """... by this many standard errors; else K=0 is looked at again while there is time for slices."""
    loss_seconds: float = 120.0
    """Time over which the safety rule counts."""
    ledger_seconds: float = 1800.0
    """Time over which tuning must pay."""
    ledger_loss: float = 0.02
    """Relative. Behind the static table by more than this over `ledger_seconds`: stay with it."""
    queue_seconds: float = 60.0
    """Nothing is tried while requests wait, for as long as this. A queue that lasts is no burst, and it
    would keep the K in force from ever being compared."""
    kv_usage_limit: float = 0.95
    """Share of the KV cache above which K does not rise and nothing is tried."""
    acceptance_floor: float = 0.1
    """First-position acceptance below which K does not rise."""
    collapse_ratio: float = 0.3
    """Acceptance of the first position below this share of its own history, beyond chance: suspect the
    outputs."""
    inter_token_latency_limit: float | None = None
    """SLO: seconds between two outputs of a request, as vLLM counts them, that nine of ten must not exceed.
    None: no SLO."""
    latency_risk: float = 0.1
    """A K may break that limit with this probability, by what is believed of it."""
    latency_tail: float = 0.1
    """Log of the 90th percentile of these seconds over the mean step, as long as no histogram tells it."""
    latency_tail_deviation: float = 0.1
    """How unsure that is."""
    latency_tail_seconds: float = 60.0
    """What a histogram told of it loses half its weight in this time."""


@dataclass(frozen=True, slots=True)
class Relaunch:
    """When another launch of the engines is worth a rolling restart, and how long a canary runs."""

    structural_duty: float = 0.8
    """Share of `ledger_seconds` with K=0 above which a launch without drafter is worth a thought."""
    relaunch_dwell_seconds: float = 300.0
    """Another launch must look better for this long without a break before it is ordered."""
    rollout_gain: float = 0.05
    """Relative. A table that needs a rolling restart must promise this much at the load of now."""
    rollout_sigmas: float = 1.0
    """... and this many standard errors; drafting again after a launch without drafter, too."""
    refused_intervals: float = 24.0
    """A launch that turned out slower is not tried again for this many relaunch intervals."""
    longest_back_off_seconds: float = 86400.0
    """Relaunches that failed or came to nothing double the wait for the next, up to this."""
    canary_every_seconds: float = 86400.0
    """A tax that was measured longer ago is measured again, where a canary is allowed."""
    canary_seconds: float = 900.0
    """A canary runs this long, at most."""
    canary_deviation: float = 0.02
    """... and ends earlier when the tax is known this well."""
    canary_share: float = 0.25
    """Share of one pod's time in which K=0 is looked at while a canary waits to be compared."""


_Part = TypeVar("_Part", Estimation, Choice, Exploration, Safety, Relaunch)


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
    estimation: Estimation = Estimation()
    choice: Choice = Choice()
    exploration: Exploration = Exploration()
    safety: Safety = Safety()
    relaunch: Relaunch = Relaunch()

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
        return bin_of(batch_size, self.bins)

    def limits(self, index: int) -> tuple[int, int | None]:
        """Smallest and largest batch of a bin; the last bin is open."""
        return bin_low(index, self.bins), None if index == len(self.bins) - 1 else self.bins[index]

    def label(self, index: int) -> str:
        """A bin as people write it: ``1``, ``7-12``, ``25+``."""
        return span(*self.limits(index))

    @property
    def numbers(self) -> Mapping[str, float | None]:
        """Those of all parts. No name stands in two of them, so a number is known by its name alone."""
        parts = (self.estimation, self.choice, self.exploration, self.safety, self.relaunch)
        return {number.name: getattr(part, number.name) for part in parts for number in fields(part)}

    def changed(self, **numbers: float | None) -> Policy:
        """The same with other numbers, each named without its part: ``changed(min_gain=0.02)``.

        Raises:
            TypeError: a name that stands in no part.
        """
        if unknown := sorted(numbers.keys() - self.numbers.keys()):
            raise TypeError(f"no number of the policy: {', '.join(unknown)}")
        return replace(
            self,
            estimation=_with(self.estimation, numbers),
            choice=_with(self.choice, numbers),
            exploration=_with(self.exploration, numbers),
            safety=_with(self.safety, numbers),
            relaunch=_with(self.relaunch, numbers),
        )

    def observing(self) -> Policy:
        """The same without any trial, for mode Observe."""
        return self.changed(
            calibration_seconds=0.0, recalibration_seconds=0.0, probe_share=0.0, canary_share=0.0
        )

    def relaunching(self) -> Policy:
        """For engines whose table changes with a restart only: no trials, but K are chosen unmeasured."""
        return self.observing().changed(untried=True)

    def with_idle_drafter(self) -> Policy:
        """For engines whose drafter makes no pass while K is 0."""
        return self.changed(k0_tax=self.estimation.k0_tax_idle)

    def allowed(self, k: int) -> int:
        """The largest candidate <= k; the smallest one if there is none."""
        return max((c for c in self.candidates if c <= k), default=self.candidates[0])


def _with(part: _Part, numbers: Mapping[str, float | None]) -> _Part:
    """The part with those of the numbers that stand in it."""
    mine = {number.name: numbers[number.name] for number in fields(part) if number.name in numbers}
    return replace(part, **mine)  # type: ignore[arg-type]


def span(low: int, high: int | None) -> str:
    """Batch sizes as people write them: ``1``, ``7-12``, ``25+``. high: None where it is open."""
    if high is None:
        return f"{low}+"
    return str(low) if low == high else f"{low}-{high}"
