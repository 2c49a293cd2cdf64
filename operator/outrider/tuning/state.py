"""The state that the tuner keeps between ticks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log
from operator import attrgetter
from typing import Annotated

from pydantic import Field

from outrider.api.drafting import MAX_K
from outrider.tuning.bounded_types import Count, Gain, Log, Seconds, Share, UnixSeconds, Variance, Whole
from outrider.tuning.estimate.acceptance import Profile
from outrider.tuning.estimate.followed import Followed
from outrider.tuning.estimate.idle_drafter_overhead import Comparison, IdleDrafterOverhead
from outrider.tuning.estimate.latency_percentile import LatencyPercentile
from outrider.tuning.estimate.surface import MAX_KNOWN, ObservedCell
from outrider.tuning.policy import Estimation, Policy, Safety
from outrider_protocol.schedule import Row, Schedule

_LOG_OF_SQUARED_NORMAL = -1.27
"""E[log z^2] of a standard normal z."""

_PODS_OF_PRIOR = 4.0
"""Pods that the prior of their differences weighs, since two that are alike prove little about a third."""
_NOISE_OF_ALARM = 0.2
_COLLAPSED_TICKS = 2
"""Neighbouring ticks with far lower acceptance after which a collapse counts."""
_LEAST_PROBED_SECONDS = 0.01
"""Recent probes of a K that are shorter than this no longer count."""
_NOISE_RATE = 0.004
"""Per reading: noise that doubles is followed within some minutes, and luck moves it by a tenth."""


@dataclass(frozen=True, slots=True)
class BinState:
    """What is chosen for one batch bin."""

    k: Whole  # in force; where it is a guess, at most
    decided: bool = False  # k was chosen; otherwise it is the static schedule's, row by row
    visited: bool = False  # engines were here; otherwise k is a guess from other bins
    foretold: bool = False  # that guess rests on step times which engines measured of themselves here
    settled_at: UnixSeconds | None = None  # of the last choice; None while it is calibrated
    credit: Seconds = 0.0  # of calibration left
    replaced: Whole | None = None  # the K before the last change, to roll back to
    changed_at: UnixSeconds | None = None
    switches: Count = 0.0  # changes up to the last one, older ones counting less

    @property
    def chosen(self) -> bool:
        """Engines were here, and k was chosen."""
        return self.decided and self.visited

    def recent_switches(self, now: float) -> float:
        """Changes of the last hour, older ones counting less."""
        if self.changed_at is None:
            return 0.0
        return self.switches * exp(-max(0.0, now - self.changed_at) / 3600.0)

    def changed_to(self, k: int, now: float, *, settled: bool) -> BinState:
        """Another K is chosen."""
        return replace(
            self,
            k=k,
            decided=True,
            settled_at=now if settled else None,
            replaced=self.k,
            changed_at=now,
            switches=self.recent_switches(now) + 1,
        )

    def unsettled(self, credit: float) -> BinState:
        """To be chosen anew, with this much time for it."""
        return replace(self, settled_at=None, credit=max(self.credit, credit), replaced=None)


NO_CHOICE = BinState(k=0)


@dataclass(frozen=True, slots=True)
class Drift:
    """Two-sided CUSUM of standardised residuals. Source: Page 1954."""

    up: Count = 0.0
    down: Count = 0.0

    def after(self, residual: float, estimation: Estimation) -> Drift:
        """One more residual, in standard deviations."""
        return Drift(
            up=max(0.0, self.up + residual - estimation.drift_slack),
            down=max(0.0, self.down - residual - estimation.drift_slack),
        )

    def found(self, estimation: Estimation) -> bool:
        """Whether the mean has moved."""
        return max(self.up, self.down) > estimation.drift_threshold


@dataclass(frozen=True, slots=True)
class Ledger:
    """Averages of recent time; time that has not been seen counts as 0."""

    gain: Gain = 0.0  # log, of tuning over the static schedule
    drafting: Gain = 0.0  # log, of what ran over K=0; without a drafter, of the best K
    drafting_error: Count = 0.0  # standard error of `drafting`
    weight: Share = 0.0  # how much of the time to judge by has been seen

    def after(self, gain: float, *, drafting: tuple[float, float], seconds: float, safety: Safety) -> Ledger:
        """`seconds` more of it. drafting: with its standard error."""
        keep = exp(-seconds / safety.ledger_seconds)
        more, error = drafting
        return Ledger(
            self.gain * keep + gain * (1 - keep),
            self.drafting * keep + more * (1 - keep),
            self.drafting_error * keep + error * (1 - keep),
            self.weight * keep + (1 - keep),
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """Log of a pod's step time over that of an average pod, and the variance of that guess."""

    mean: Log = 0.0
    variance: Variance = 0.09

    def after(self, residual: float, variance: float) -> Pace:
        """One more measurement (Kalman)."""
        before = self.variance + 1e-5
        gain = before / (before + variance)
        return Pace(self.mean + gain * (residual - self.mean), (1 - gain) * before)


@dataclass(frozen=True, slots=True)
class Learning:
    """What measurements showed about the engines and their text."""

    known: Annotated[tuple[ObservedCell, ...], Field(max_length=MAX_KNOWN)] = ()
    profile: Profile = field(default_factory=Profile)
    pods: Mapping[str, Pace] = field(default_factory=dict)  # by name; empty for a single pod
    log_noise: Log = 0.0  # log of the noise found over the policy's
    drift: Drift = field(default_factory=Drift)
    first_accepted: Count = 0.0  # drafts whose first token was accepted, over the whole history
    first_drafted: Count = 0.0
    collapsed: Whole = 0  # neighbouring ticks with first-position acceptance far below that history
    tail: LatencyPercentile | None = None  # of gaps between outputs; None where no limit asks for it
    followed: Followed | None = None  # what engines gain that choose K at each step; None where none does
    limited: Annotated[tuple[Share, ...], Field(max_length=MAX_K)] = ()
    """By position, the ratio of requests whose own K limit leaves it out; empty where none has a limit."""

    @property
    def acceptance_collapsed(self) -> bool:
        """Whether acceptance is far below its history, in more than one tick."""
        return self.collapsed >= _COLLAPSED_TICKS

    def noise(self, estimation: Estimation) -> float:
        """Relative standard deviation of the mean step time of `NOISE_SECONDS`, as found here."""
        return estimation.noise * exp(self.log_noise)

    def seconds_of(self, index: int, k: int, now: float, estimation: Estimation) -> float:
        """Remaining weight of the measurements of one K in one batch bin, in seconds."""
        cells = (cell for cell in self.known if (cell.bin, cell.k) == (index, k))
        return sum(cell.seconds_at(now, estimation) for cell in cells)

    def pod_variance(self, estimation: Estimation) -> float:
        """Variance of log step times between pods of one launch: the prior's and the measured one's mean."""
        paces = [pace.mean for pace in self.pods.values()]
        measured = max(len(paces) - 1, 0)
        prior = _PODS_OF_PRIOR * estimation.pod_deviation**2
        return (prior + sum(pace**2 for pace in paces)) / (_PODS_OF_PRIOR + measured)

    def with_residual(self, squared: float) -> Learning:
        """Follow the noise: `squared` is a squared residual in units of its variance."""
        return self._with_noise(_NOISE_RATE * (log(min(max(squared, 1e-3), 16.0)) - _LOG_OF_SQUARED_NORMAL))

    def noisier(self) -> Learning:
        """Raise the noise after a change that may have been noise."""
        return self._with_noise(_NOISE_OF_ALARM)

    def _with_noise(self, more: float) -> Learning:
        return replace(self, log_noise=min(max(self.log_noise + more, -0.7), 1.4))


@dataclass(frozen=True, slots=True)
class ProbeCost:
    """What recent probes of one K in one batch bin cost against no speculation; older ones count less."""

    bin: Whole
    k: Whole
    seconds: Seconds  # per pod of the bin
    loss: Seconds  # the same, as was expected before the probes or, if that is less, known afterwards


@dataclass(frozen=True, slots=True)
class ProbeBudget:
    """What probes may still cost."""

    credit: Seconds = 0.0  # of probes in settled bins
    comparison_credit: Seconds = 0.0  # of probes of K=0 for a launch without drafter
    probes: Annotated[tuple[ProbeCost, ...], Field(max_length=MAX_KNOWN)] = ()

    @property
    def loss(self) -> float:
        """What recent probes cost against no speculation, in seconds of its goodput."""
        return sum(each.loss for each in self.probes)

    def after(self, seconds: float, loss_seconds: float) -> ProbeBudget:
        """The same when time has passed. loss_seconds: in which a probe comes to count 1 / e."""
        left = exp(-seconds / loss_seconds)
        older = (replace(each, seconds=each.seconds * left, loss=each.loss * left) for each in self.probes)
        return replace(self, probes=tuple(each for each in older if each.seconds > _LEAST_PROBED_SECONDS))

    def with_probe(self, probe: ProbeCost) -> ProbeBudget:
        """The same with another probe."""
        same = [each for each in self.probes if (each.bin, each.k) == (probe.bin, probe.k)]
        others = [each for each in self.probes if each not in same]
        seconds, loss = (sum(map(get, (*same, probe))) for get in (attrgetter("seconds"), attrgetter("loss")))
        added = replace(probe, seconds=seconds, loss=loss)
        return replace(self, probes=(*others, added)[-MAX_KNOWN:])


@dataclass(frozen=True, slots=True)
class StaticFallback:
    """Whether tuning pays, and how long the static schedule replaces the tuned one if it does not."""

    ledger: Ledger = field(default_factory=Ledger)
    until: UnixSeconds | None = None  # None: the tuned schedule is used

    @property
    def active(self) -> bool:
        """Whether the static schedule is used until a decision ends that."""
        return self.until is not None

    def seconds_left(self, now: float) -> float:
        """Seconds for which the static schedule is still used."""
        return 0.0 if self.until is None else max(0.0, self.until - now)

    def expired(self, now: float) -> StaticFallback:
        """End its cause, so that the next decision with measurements may end the fallback."""
        return replace(self, until=None if self.until is None else min(self.until, now))


@dataclass(frozen=True, slots=True)
class CanaryState:
    """What launches without a drafter showed."""

    overhead: IdleDrafterOverhead | None = None  # of K=0; None until such a launch was measured
    comparison: Comparison | None = None  # of such a launch, while one runs


@dataclass(frozen=True, slots=True)
class TunerState:
    """Everything that the tuner keeps between ticks. Immutable; every decision has the next one."""

    static: Schedule  # what the user gave; used for batch bins without measurements
    schedule: Schedule  # wanted now
    candidates: tuple[int, ...]  # of the policy that it was made under
    edges: tuple[int, ...]  # of that policy's batch bins
    bins: Mapping[int, BinState] = field(default_factory=dict)  # by index
    at: UnixSeconds | None = None  # of the last tick
    ticks: Whole = 0
    queued_since: UnixSeconds | None = None  # requests waited at every tick from then on
    learning: Learning = field(default_factory=Learning)
    budget: ProbeBudget = field(default_factory=ProbeBudget)
    fallback: StaticFallback = field(default_factory=StaticFallback)
    canary: CanaryState = field(default_factory=CanaryState)

    @classmethod
    def start(cls, static: Schedule, policy: Policy) -> TunerState:
        """The state before any measurement, with the allowed K of the static schedule."""
        return cls(static, compose(static, {}, policy), policy.candidates, policy.bins)

    def with_bin(self, index: int, bin_state: BinState) -> TunerState:
        """The same with one bin replaced."""
        return replace(self, bins={**self.bins, index: bin_state})

    def all_unsettled(self, credit: float) -> TunerState:
        """The same with every bin to be chosen anew, each with this many seconds of probes."""
        return replace(self, bins={index: b.unsettled(credit) for index, b in self.bins.items()})

    def composed(self, policy: Policy) -> TunerState:
        """The same with the schedule that follows from the bins."""
        bins = {} if self.fallback.active else self.bins
        return replace(self, schedule=compose(self.static, bins, policy))


def compose(static: Schedule, bins: Mapping[int, BinState], policy: Policy) -> Schedule:
    """The schedule for what was chosen per bin."""
    edges = {row.max_batch_size for row in static.rows if row.max_batch_size is not None}
    uppers = sorted(edges.union(policy.bins[:-1]))
    batch_sizes = (*uppers, max([*uppers, policy.max_num_seqs]) + 1)
    ks = _rows(static, bins, batch_sizes, policy)
    return Schedule(tuple(map(Row, (*uppers, None), ks))).merged()


def room(static: Schedule, index: int, policy: Policy) -> int:
    """The smallest K of the static schedule in a bin: the largest that may be guessed from other bins."""
    low, high = policy.limits(index)
    top = inf if high is None else high
    edges = (row.max_batch_size for row in static.rows if row.max_batch_size is not None)
    return min(
        policy.allowed(static.k_at(each)) for each in (low, *(e for e in edges if low <= e <= top), top)
    )


def _rows(
    static: Schedule, bins: Mapping[int, BinState], batch_sizes: Sequence[int], policy: Policy
) -> Iterator[int]:
    """K for rising batch sizes.

    Bins where engines were have their choice. The first burst into any other bin must do no harm. So that bin
    gets no more than the static schedule has there, unless a profile has its step times. Once something
    smaller was chosen, it gets no more than the row below, since a larger batch leaves less room for drafts.
    """
    below: int | None = None
    for batch_size in batch_sizes:
        index = policy.bin_of(batch_size)
        choice = bins.get(index, NO_CHOICE)
        if choice.chosen:
            k = choice.k
        else:
            guess = _guessed(choice, static, index, policy)
            k = policy.allowed(static.k_at(batch_size)) if guess is None else guess
            k = k if below is None else min(k, below)
        if choice.decided or below is not None:
            below = k
        yield k


def _guessed(choice: BinState, static: Schedule, index: int, policy: Policy) -> int | None:
    """The K of a bin where engines never were; None where nothing was guessed for it."""
    if not choice.decided:
        return None
    return choice.k if choice.foretold else min(choice.k, room(static, index, policy))
