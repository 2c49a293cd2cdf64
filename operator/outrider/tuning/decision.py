"""What one tick of the law answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from outrider.api.drafting import MAX_K
from outrider.api.schedule import Schedule
from outrider.tuning.estimate.belief import Belief
from outrider.tuning.estimate.tax import Tax
from outrider.tuning.limits import Count, Seconds, Whole, Words
from outrider.tuning.state import TunerState


class Kind(StrEnum):
    """What a decision does to the table."""

    HOLD = "Hold"
    EXPLORE = "Explore"
    EXPLOIT = "Exploit"
    ROLL_BACK = "RollBack"


class DecisionReason(StrEnum):
    """Why. Stable: users and dashboards may rely on them."""

    METRICS_GAP = "MetricsGap"
    """Hold: a pod has no usable measurement, or lacks a gauge without which K must not rise."""
    NO_TRAFFIC = "NoTraffic"
    """Hold: no tokens were generated."""
    MIXED_WINDOW = "MixedWindow"
    """Hold: load or table changed inside the window, so it says nothing about one K."""
    MEASURING = "Measuring"
    """Hold: a K on trial has not been measured long enough."""
    SETTLED = "Settled"
    """Hold: the best K known is in force."""
    DWELL = "Dwell"
    """Hold: another K looks better, but the last change is too fresh."""
    RATE_LIMITED = "RateLimited"
    """Hold: another K looks better, but K changed often in the last hour."""
    ACCEPTANCE_COLLAPSED = "AcceptanceCollapsed"
    """Hold: drafts fail far more often than ever before, so K must not rise."""
    ACCEPTANCE_LOW = "AcceptanceLow"
    """Hold: hardly any draft is accepted, so K must not rise."""
    KV_PRESSURE = "KVPressure"
    """Hold: the KV cache is full, so K must not rise."""
    QUEUE = "Queue"
    """Hold: requests wait, so nothing is tried."""
    NO_SLACK = "NoSlack"
    """Hold: steps are slower than the SLO, so nothing is tried."""
    NOT_A_CANDIDATE = "NotACandidate"
    """Hold: the engines were not launched with that K."""
    NO_DRAFTER = "NoDrafter"
    """Hold: the engines were launched without a drafter."""
    PINNED = "Pinned"
    """Hold: tuning did not pay here, the static table stays for a while."""
    CALIBRATION = "Calibration"
    """Explore: a batch size without measurements."""
    PROBE = "Probe"
    """Explore: a rare look at another K."""
    BETTER_K = "BetterK"
    """Exploit: the measured gain is beyond min_gain and noise."""
    LIKELY_BETTER = "LikelyBetter"
    """Exploit: a larger K is likely better, but not beyond noise; the batch size is not settled."""
    SMALLER_K = "SmallerK"
    """Exploit: a smaller K is no slower as far as is known; the batch size is not settled."""
    WITHIN_LIMIT = "WithinLimit"
    """Exploit: the K before breaks the latency limit."""
    CALIBRATED = "Calibrated"
    """Exploit: nothing is left to learn, or the time is up; the K in force stays."""
    FOLLOWS = "Follows"
    """Exploit: what was learnt here changes the K of other batch sizes."""
    UNPINNED = "Unpinned"
    """Exploit: the static table had its time, what was chosen rules again."""
    PROBE_LOST = "ProbeLost"
    """Roll back: the K on trial is not better."""
    WORSE_THAN_BEFORE = "WorseThanBefore"
    """Roll back: the new K turned out slower than the one before."""
    LOAD_MOVED = "LoadMoved"
    """Roll back: the load left the batch bin of a trial."""
    TRIAL_STARVED = "TrialStarved"
    """Roll back: a trial got no measurements."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Goodput of one K at one batch size."""

    num_speculative_tokens: Whole
    goodput: Count  # tokens per second of engine time, at the batch size of `BinEstimates`
    standard_error: Count  # tokens per second
    seconds: Seconds  # engine time behind it, after forgetting


@dataclass(frozen=True, slots=True)
class BinEstimates:
    """All measured K of one batch bin."""

    label: Words  # "5-8"
    low: Whole  # smallest batch size of the bin
    high: Whole | None  # largest; None: open
    batch_size: Count  # where the estimates are given
    settled: bool  # calibration is over
    estimates: Annotated[tuple[Estimate, ...], Field(max_length=MAX_K + 1)]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How drafts fared in this tick, pooled over pods by sums."""

    rate: float  # accepted over drafted tokens, 0..1
    length: float  # mean tokens per drafted step, bonus token included
    per_position: tuple[
        float, ...
    ]  # position j accepted, over drafts that reach it; over all for stock engines


class Reference(StrEnum):
    """What a speedup was measured against."""

    PROBE = "Probe"
    """K=0 in the same engines, in slices of time; the tax of K=0 is a prior."""
    CANARY = "Canary"
    """... and the tax of K=0 was measured on a pod that was launched without a drafter."""
    PRIOR = "Prior"
    """K=0 was not measured at this batch size: other batch sizes and the prior stand for it."""


class Structural(StrEnum):
    """Whether the engines should have a drafter at all."""

    KEEP = "Keep"
    """As they were launched."""
    OFF = "Off"
    """K=0 rules, and K=0 costs more than no drafter: launch without one."""
    ON = "On"
    """At the load of now a drafter would pay."""


@dataclass(frozen=True, slots=True)
class Speedup:
    """Goodput of the K in force over that of a launch without drafter, at the batch size of now."""

    ratio: float
    low: float  # about 95 %
    high: float
    reference: Reference
    measured_at: float  # unix seconds of the oldest part: K=0 or the K in force, and with a canary the tax
    known: bool = False  # the interval is narrow enough to be knowledge


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is believed at the load of now, for those who decide how engines are launched."""

    belief: Belief
    measured: Mapping[int, float]  # K to unix seconds of its newest measurement at this batch size
    k0_duty: float  # 0..1: share of recent time with K=0
    tax: Tax  # of K=0 against a launch without drafter


@dataclass(frozen=True, slots=True)
class Slice:
    """One K for a short while."""

    num_speculative_tokens: int
    seconds: float  # engine time in the probed batch bin


@dataclass(frozen=True, slots=True)
class Probe:
    """Slices that one pod runs one after another, by itself; then its table returns."""

    pod: str  # namespace/name
    low: int  # smallest batch size of the bin
    high: int | None  # largest; None: open
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class Wish:
    """What the law wants, before it is reported: the kind, why, and the state that brings it about."""

    kind: Kind
    reason: DecisionReason
    sentence: str
    state: TunerState
    gain: float | None = None  # relative, expected
    probe: Probe | None = None
    explained: frozenset[int] = frozenset()  # bins whose rows the sentence explains in other words


@dataclass(frozen=True, slots=True)
class Decision:
    """One tick's answer: the table wanted and everything that it was made from."""

    kind: Kind
    reason: DecisionReason
    sentence: str  # plain, with the numbers
    schedule: Schedule  # wanted from now on
    changed: bool  # differs from the one wanted before
    state: TunerState  # for the next tick
    batch_size: float | None  # mean over pods now; None without a usable window
    num_speculative_tokens: int | None  # wanted at that batch size
    expected_gain: float | None  # relative, of this change; None when it is no exploitation
    measured_gain: float | None  # relative, of the last change in this bin; None until measured
    estimates: Mapping[str, BinEstimates]  # by label
    acceptance: Acceptance | None  # None when nothing was drafted
    acceptance_collapsed: bool  # far below its own history
    speedup: Speedup | None  # None until K=0 and the K in force were measured here
    probe: Probe | None = None  # to be run on top of the table; None where the engine cannot, or need not
    structural: Structural = Structural.KEEP
    outlook: Outlook | None = field(default=None, compare=False, repr=False)  # None without measurements
