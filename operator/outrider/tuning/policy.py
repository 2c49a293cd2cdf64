"""All parameters of the tuner, by purpose, with units and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TypeVar

from outrider.api.launch import RelaunchPolicy
from outrider.api.tuning import StructuralOff
from outrider_protocol.bins import bin_low, bin_of, geometric_bins

NOISE_SECONDS = 10.0
"""Length of the measurement to which relative noise refers. Noise falls with the root of time."""


@dataclass(frozen=True, slots=True)
class Estimation:
    """Weights of measurements: windows, acceptance, step times, overhead of the idle drafter."""

    draft_length_tolerance: float = 0.15
    """Relative tolerance, at least 0.25 tokens. Drafts with a mean length further from the schedule's K were
    made with several K."""
    min_draft_share: float = 0.7
    """Minimum ratio of request-steps with a draft if K > 0; 0 for drafters that may find none (ngram)."""
    noise: float = 0.05
    """Relative standard deviation of the mean step time of `NOISE_SECONDS`."""
    half_life_seconds: float = 1800.0
    """Half-life of the weight of step times."""
    batch_octaves: float = 2.0
    """Length scale of the correlation over batch sizes, in octaves."""
    level_deviation: float = 0.20
    """Deviation of the log step time from the linear model that neighbouring batch sizes share."""
    depth_deviation: float = 0.02
    """Deviation of the log step time of one K from the linear model, at every batch size."""
    bend_deviation: float = 0.12
    """Deviation of the log step time of one K that only neighbouring batch sizes share."""
    cell_deviation: float = 0.04
    """Deviation of the log step time of one K at one batch size alone."""
    map_trust: float = 0.9
    """Prior probability that a step-time profile is of these engines."""
    map_scale_deviation: float = 0.3
    """Deviation of the log step time of live steps from a profile, equal at all points. Pods differ as much,
    and no choice depends on it."""
    map_batch_deviation: float = 0.02
    """Deviation from a profile per octave of batch size."""
    map_depth_deviation: float = 0.02
    """Deviation from a profile per log of 1 + K."""
    drift_slack: float = 0.5
    """CUSUM slack in standard deviations: half the smallest shift to detect."""
    drift_threshold: float = 9.0
    """CUSUM threshold in standard deviations: one false alarm in about a thousand ticks."""
    drift_keep: float = 0.05
    """Remaining weight of step times after the engines changed."""
    acceptance_noise: float = 0.06
    """Absolute standard deviation of the acceptance rate of one tick, because prompts differ."""
    acceptance_half_life_seconds: float = 30.0
    """Half-life of acceptance. It is short, because acceptance follows the texts and counts are large."""
    undrafted_half_life_seconds: float = 60.0
    """Half-life of the acceptance of positions without drafts. It lets the tuner leave K=0 and short drafts
    again once the text may have changed."""
    shift_drafts: float = 40.0
    """Drafts before and after a change that are needed to detect another text."""
    k0_tax: float = 0.10
    """Relative overhead of the idle drafter before any measurement, if the drafter follows every step
    (published: 4 to 25 %)."""
    k0_tax_idle: float = 0.05
    """Relative overhead before any measurement, if the drafter makes no pass while K is 0."""
    k0_tax_deviation: float = 0.08
    """Standard deviation of the overhead before any measurement."""
    tax_half_life_seconds: float = 86400.0
    """Half-life of the overhead that a launch without a drafter measured."""
    tax_measured_share: float = 0.8
    """The overhead counts as measured once its deviation is below this ratio of `k0_tax_deviation`."""
    pod_deviation: float = 0.02
    """Standard deviation of the log step time between pods before any measurement. Source: GPUs of one kind
    spread over 8 % in a cluster (Sinha et al. 2022, arXiv 2208.11035), which is about 4 deviations."""
    speedup_known: float = 0.25
    """Relative width upwards of the 95 % interval below which a speedup counts as known."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Required certainty of a better K, and limits of changes."""

    min_gain: float = 0.01
    """Minimum relative gain of a change."""
    confidence_sigmas: float = 1.0
    """Standard errors of gain that a change of a settled K needs."""
    caution_sigmas: float = 0.5
    """Standard errors of gain that a change in a bin needs before it is settled; a smaller K needs none."""
    untried: bool = False
    """Whether the tuner may choose a K without measurements. This is for engines whose schedule changes only
    with a restart, because they have no other way to measure it."""
    untried_sigmas: float = 0.25
    """Standard errors of gain that a K without measurements at this batch size needs. It is small, because
    such estimates are never certain, and a roll-back is quick."""
    pause_weight: float = 0.0
    """Weight of the pause between two outputs. A K is worth goodput / step time ^ weight; 0 is goodput
    alone."""
    dwell_seconds: float = 20.0
    """Minimum time of a settled K in its bin, unless it is rolled back or the engines changed."""
    rollback_loss: float = 0.05
    """Relative loss of a new K against the one before, above which it is rolled back immediately."""
    switches_per_hour: float = 6.0
    """Maximum changes of a settled K in one bin. Roll-backs do not count."""
    switches_to_settle: float = 3.0
    """Additional changes before a bin is settled."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """Time for probes of other K."""

    calibration_seconds: float = 30.0
    """Maximum probe time in a new batch bin."""
    recalibration_seconds: float = 15.0
    """Maximum probe time after the engines or the texts changed."""
    probe_share: float = 0.03
    """Maximum ratio of time for probes after calibration."""
    probe_burst_seconds: float = 20.0
    """Maximum probe time that accumulates."""
    slice_seconds: float = 1.0
    """Engine time of one probe."""
    slice_steps: float = 10.0
    """Minimum engine steps of a probe, so that a slow engine is not judged by a few."""
    longest_slice_seconds: float = 5.0
    """Maximum engine time of a probe, even with fewer steps."""
    horizon_seconds: float = 1200.0
    """Time for which a measurement is assumed to be useful."""


@dataclass(frozen=True, slots=True)
class Safety:
    """Limits of the cost of tuning, and guardrails."""

    loss_budget: float = 0.01
    """Maximum relative cost of probes against no speculation, over `loss_seconds`. It is half of what the
    safety rule allows."""
    loss_sigmas: float = 1.0
    """Standard errors that are added to the estimated cost of a probe."""
    safe_loss: float = 0.02
    """Maximum relative loss of a K > 0 against no speculation."""
    safe_sigmas: float = 1.0
    """Standard errors of that loss. Beyond it the tuner probes K=0 again, while probe time is left."""
    loss_seconds: float = 120.0
    """Time over which the safety rule applies."""
    ledger_seconds: float = 1800.0
    """Time over which tuning must pay."""
    ledger_loss: float = 0.02
    """Relative loss against the static schedule over `ledger_seconds`, above which the tuner uses it."""
    queue_seconds: float = 60.0
    """Maximum time without probes while requests wait. A longer queue is not a burst, and without probes K
    would never be compared."""
    kv_usage_limit: float = 0.95
    """Ratio of the used KV cache above which K does not rise and the tuner does not probe."""
    acceptance_floor: float = 0.1
    """Acceptance at the first position below which K does not rise."""
    collapse_ratio: float = 0.3
    """Ratio of the acceptance at the first position to its history, below which outputs are suspect. Chance
    is excluded."""
    inter_token_latency_limit: float | None = None
    """Target: seconds between two outputs of a request, as vLLM counts them. None: no target."""
    inter_token_latency_quantile: float = 0.9
    """Ratio of these seconds that must keep the limit."""
    latency_risk: float = 0.1
    """Maximum estimated probability that a K violates that limit."""
    latency_tail: float = 0.1
    """Log of the 90th percentile of these seconds over the mean step, before a histogram gives it. For
    another percentile it grows with the standard score."""
    latency_tail_deviation: float = 0.1
    """Standard deviation of that value."""
    latency_tail_seconds: float = 60.0
    """Half-life of a value from a histogram."""


@dataclass(frozen=True, slots=True)
class Relaunch:
    """Conditions of a relaunch, and limits of a canary."""

    structural_gain: float = 0.02
    """Relative gain of a launch with or without a drafter that a relaunch needs. It is a mean of
    `ledger_seconds`, in which time that was not seen counts as 0."""
    structural_sigmas: float = 0.5
    """Standard errors of the gain without a drafter that a relaunch needs. It is small, because the error of
    the overhead is large until a launch without a drafter measures it."""
    relaunch_dwell_seconds: float = 300.0
    """Time for which another launch must look better without a break before the tuner orders it."""
    rollout_gain: float = 0.05
    """Minimum relative gain, at the current load, of a schedule that needs a rolling restart."""
    rollout_sigmas: float = 1.0
    """Standard errors of that gain, and of the gain that returns a drafter."""
    refused_intervals: float = 24.0
    """Relaunch intervals for which a slower launch is not repeated."""
    longest_back_off_seconds: float = 86400.0
    """Maximum wait for the next relaunch. Relaunches that failed or gained nothing double the wait."""
    canary_every_seconds: float = 86400.0
    """Age after which the overhead is measured again, if a canary is allowed."""
    canary_seconds: float = 900.0
    """Maximum time of a canary. A comparison of verification or drafters takes all of it."""
    trial_seconds: float = 3600.0
    """Maximum time of a canary with a new drafter, if traffic is too little for a result."""
    canary_deviation: float = 0.02
    """Standard deviation of the overhead at which a canary ends earlier."""
    comparison_warm_up_seconds: float = 120.0
    """Time in which a canary with the other verification or a new drafter finds its K. The comparison begins
    after it."""
    verification_gain: float = 0.02
    """Minimum relative gain of the other verification for a relaunch, and minimum loss with a new drafter
    for a return. Its 95 % interval must exclude 0."""
    canary_share: float = 0.25
    """Maximum ratio of one pod's time for probes of K=0 while these can change the launch."""
    k0_seconds: float = 60.0
    """Engine time of K=0 in a batch bin, older time counting less, from which on K=0 is probed for a canary
    alone."""


_Part = TypeVar("_Part", Estimation, Choice, Exploration, Safety, Relaunch)


@dataclass(frozen=True)
class Policy:
    """Parameters and limits of the tuner.

    Raises:
        ValueError: no candidates, not rising, a negative one, or no batch.
    """

    candidates: tuple[int, ...]
    """Values of K that the tuner may use, rising. Engines were launched with all of them."""
    max_num_seqs: int
    """Maximum batch size of the engine; it determines the batch bins."""
    estimation: Estimation = Estimation()
    choice: Choice = Choice()
    exploration: Exploration = Exploration()
    safety: Safety = Safety()
    relaunch: Relaunch = Relaunch()
    removes_drafter: bool = False
    """Whether a launch without a drafter is allowed or advised."""

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
        """Return the index of a batch size's bin. A mean is rounded, because engines count requests."""
        return bin_of(batch_size, self.bins)

    def limits(self, index: int) -> tuple[int, int | None]:
        """Return the smallest and largest batch size of a bin; the last bin is open."""
        return bin_low(index, self.bins), None if index == len(self.bins) - 1 else self.bins[index]

    def label(self, index: int) -> str:
        """Return the name of a bin, such as ``1``, ``7-12`` or ``25+``."""
        return span(*self.limits(index))

    @property
    def numbers(self) -> Mapping[str, float | None]:
        """Parameters of all parts by name; each name is unique."""
        parts = (self.estimation, self.choice, self.exploration, self.safety, self.relaunch)
        return {number.name: getattr(part, number.name) for part in parts for number in fields(part)}

    def changed(self, **numbers: float | None) -> Policy:
        """Return a policy with other parameters, named without their part: ``changed(min_gain=0.02)``.

        Raises:
            TypeError: an unknown name.
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
        """Return the policy without probes, for mode Observe."""
        return self.changed(
            calibration_seconds=0.0, recalibration_seconds=0.0, probe_share=0.0, canary_share=0.0
        )

    def relaunching(self) -> Policy:
        """Return the policy for engines whose schedule changes only with a restart: without probes."""
        return self.observing().changed(untried=True)

    def paced(self, relaunches: RelaunchPolicy) -> Policy:
        """Return the policy under what a spec allows of relaunches.

        Judgement is shorter if relaunches may follow each other quickly.
        """
        if relaunches.silent:
            return self
        interval = max(relaunches.interval_seconds, 1.0)
        removes = relaunches.structural_off is not StructuralOff.NEVER
        return replace(self, removes_drafter=removes).changed(
            ledger_seconds=min(self.safety.ledger_seconds, interval),
            relaunch_dwell_seconds=min(self.relaunch.relaunch_dwell_seconds, interval / 4),
        )

    def without_targets(self) -> Policy:
        """Return the policy without what the user wants of latency, which no measurement depends on."""
        return self.changed(
            pause_weight=0.0, inter_token_latency_limit=None, inter_token_latency_quantile=0.9
        )

    def with_idle_drafter(self) -> Policy:
        """Return the policy for engines whose drafter makes no pass while K is 0."""
        return self.changed(k0_tax=self.estimation.k0_tax_idle)

    def allowed(self, k: int) -> int:
        """Return the largest candidate <= k, or else the smallest one."""
        return max((c for c in self.candidates if c <= k), default=self.candidates[0])


def _with(part: _Part, numbers: Mapping[str, float | None]) -> _Part:
    """Return the part with its own parameters changed."""
    mine = {number.name: numbers[number.name] for number in fields(part) if number.name in numbers}
    return replace(part, **mine)  # type: ignore[arg-type]


def span(low: int, high: int | None) -> str:
    """Return a range of batch sizes as text: ``1``, ``7-12``, ``25+``. high: None for an open range."""
    if high is None:
        return f"{low}+"
    return str(low) if low == high else f"{low}-{high}"
