"""The answer of the tuner to one tick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from outrider.api.drafting import MAX_K
from outrider.api.reasons import DecisionReason
from outrider.tuning.bounded_types import Count, Seconds, Whole, Words
from outrider.tuning.estimate.contrast import Contrast
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.state import TunerState
from outrider_protocol.cost_model import CostModel
from outrider_protocol.schedule import Schedule


class Kind(StrEnum):
    """Effect of a decision on the schedule."""

    HOLD = "Hold"
    EXPLORE = "Explore"
    EXPLOIT = "Exploit"
    ROLL_BACK = "RollBack"


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
    drafts: float = 0.0  # request-steps with a draft

    @property
    def first(self) -> float:
        """Ratio of drafts whose first token was accepted, which does not depend on K.

        Without counts by position it is taken to be the rate over all drafted tokens, which is no larger.
        """
        return self.per_position[0] if self.per_position else self.rate


class Reference(StrEnum):
    """What a speedup was measured against."""

    PROBE = "Probe"
    """K=0 in the same engines, by probes. The overhead of the idle drafter is a prior."""
    CANARY = "Canary"
    """K=0 by probes, with the overhead of the idle drafter measured on a pod without a drafter."""
    PRIOR = "Prior"
    """K=0 was not measured at this batch size: other batch sizes and the prior stand for it."""


class Structural(StrEnum):
    """Whether the engines should have a drafter at all."""

    KEEP = "Keep"
    """As they were launched."""
    OFF = "Off"
    """For some time drafting was slower than no drafter: launch without one."""
    ON = "On"
    """For some time a drafter paid, or would have."""


@dataclass(frozen=True, slots=True)
class Speedup:
    """Goodput of the K in force over that of a launch without drafter, at the current batch size."""

    ratio: float
    low: float  # about 95 %
    high: float
    reference: Reference
    measured_at: (
        float  # unix seconds of the oldest part: K=0 or the K in force, and with a canary the overhead
    )
    known: bool = False  # the interval is narrow enough to be knowledge


@dataclass(frozen=True, slots=True)
class LatencyOutlook:
    """What the tuner expects of the pause between outputs at each batch size, under its limit."""

    batch_size: float  # present
    keeping: tuple[int, ...]  # K that keep the limit at the present batch size
    quickest: int  # the K with the shortest steps there
    seconds: float  # its percentile of the pause
    largest_batch: float  # up to which some K likely keeps the limit; 0 if none does at any batch size
    alone: float  # seconds: percentile of the quickest K at the smallest batch size


@dataclass(frozen=True, slots=True)
class Outlook:
    """The estimates at the current load, and what follows for the launch configuration."""

    posterior: Posterior = field(compare=False)
    measured: Mapping[int, float]  # K to unix seconds of its newest measurement at this batch size
    drafting: float  # log, recent mean: goodput over a launch without drafter
    drafting_error: float
    overhead: IdleDrafterOverhead  # of K=0 against a launch without drafter
    structural: Structural = Structural.KEEP
    estimates: Mapping[str, BinEstimates] = field(default_factory=dict)  # by label of the batch bin
    speedup: Speedup | None = None  # None until K=0 and the K in force were measured here
    measured_gain: float | None = None  # relative, of the last change in this bin; None until measured
    contrast: Contrast | None = None  # with pods of the other launch in this tick; None without such pods
    latency: LatencyOutlook | None = None  # None without a limit on the pause between outputs

    @property
    def batch_size(self) -> float:
        """Mean batch size over pods now."""
        return self.posterior.batch_size


@dataclass(frozen=True, slots=True)
class Slice:
    """One K for a short while."""

    num_speculative_tokens: int
    seconds: float  # engine time in the probed batch bin


@dataclass(frozen=True, slots=True)
class Probe:
    """Intervals that one pod runs one after another without further requests; then its schedule returns."""

    pod: str  # namespace/name
    low: int  # smallest batch size of the bin
    high: int | None  # largest; None: open
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """The answer of a stage: the kind, the reason, and the state that results."""

    kind: Kind
    reason: DecisionReason
    sentence: str  # plain, with the numbers
    state: TunerState
    gain: float | None = None  # relative, expected
    probe: Probe | None = None
    explained: frozenset[int] = frozenset()  # bins whose rows the sentence explains in other words


@dataclass(frozen=True, slots=True)
class Decision:
    """The tuner's answer to one tick: the next state with the wanted schedule, and why."""

    kind: Kind
    reason: DecisionReason
    sentence: str
    state: TunerState  # for the next tick
    before: Schedule  # wanted before this tick
    expected_gain: float | None = None  # relative, of this change; None unless it exploits
    probe: Probe | None = None  # to be run on top of the schedule; None if the engine cannot, or need not
    acceptance: Acceptance | None = None  # None when nothing was drafted
    acceptance_collapsed: bool = False  # far below its own history
    outlook: Outlook | None = None  # None without measurements
    cost_model: Callable[[], CostModel | None] = field(default=lambda: None, compare=False, repr=False)
    """Makes what engines may choose K by at each step, since few ticks need it. None: the schedule alone."""

    @property
    def schedule(self) -> Schedule:
        """The schedule that is wanted from now on."""
        return self.state.schedule

    @property
    def changed(self) -> bool:
        """Whether another schedule is wanted than before."""
        return self.schedule != self.before

    @property
    def batch_size(self) -> float | None:
        """Mean batch size over pods now; None without measurements."""
        return None if self.outlook is None else self.outlook.batch_size

    @property
    def num_speculative_tokens(self) -> int | None:
        """The wanted K at the current batch size; None without measurements."""
        return None if self.outlook is None else self.schedule.k_at_mean(self.outlook.batch_size)

    @property
    def estimates(self) -> Mapping[str, BinEstimates]:
        """The estimates by label of the batch bin; none without measurements."""
        return {} if self.outlook is None else self.outlook.estimates

    @property
    def measured_gain(self) -> float | None:
        """The relative gain of the last change in the current bin, once it is measured."""
        return None if self.outlook is None else self.outlook.measured_gain

    @property
    def speedup(self) -> Speedup | None:
        """The speedup at the current load, once it is measured."""
        return None if self.outlook is None else self.outlook.speedup
