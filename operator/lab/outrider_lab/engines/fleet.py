"""What an engine model offers to a run: pods that work from tick to tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Protocol

import numpy as np

from outrider.tuning.decision import Probe
from outrider.tuning.observe.window import Observation
from outrider.tuning.policy import NOISE_SECONDS
from outrider_lab.engines.step_rules import MakeRule
from outrider_lab.engines.verification.setting import AdaptiveVerification
from outrider_lab.latency import Gaps
from outrider_protocol.cost_model import CostModel
from outrider_protocol.schedule import Schedule

PROBE_DEADLINE_SECONDS = 20.0
"""Wall time after which an engine ends a probe."""
_MIN_FACTOR = 0.05
"""Minimum ratio of a measured to the true goodput, even for short measurements."""


@dataclass(frozen=True, slots=True)
class Span:
    """One pod at work with one K for a while: the truth, without noise."""

    pod: str
    started_at: float
    seconds: float  # wall time
    engine_seconds: float  # of it at work
    tokens: float
    batch_size: float  # scheduled requests, mean over engine time
    off_table: bool  # with a probe's K, not the schedule's
    needed: tuple[float, ...] = ()
    """Engine seconds for the same work at the same batch: without a drafter, then with each candidate."""
    gaps: Gaps = field(default_factory=dict)
    """Between two outputs of a request; those of a probe count with the schedule's."""


@dataclass(frozen=True, slots=True)
class Tick:
    """What happened between two decisions."""

    observations: tuple[Observation, ...]
    spans: tuple[Span, ...]
    batch_size: float | None  # of the pods now; None while all idle


@dataclass(frozen=True, slots=True)
class Launch:
    """What the engines of a run keep from their start.

    step_rule: a policy inside every engine, which chooses K in place of schedule and fast loop.
    verification: the engines verify some of their drafts only; None: all of them.
    """

    step_rule: MakeRule | None = None
    verification: AdaptiveVerification | None = None


class Fleet(Protocol):
    """Pods of one model under simulated load."""

    def launch(self, launch: Launch) -> None:
        """Give the engines what they keep, once and before `advance`.

        Raises:
            ValueError: this engine model cannot say what adaptive verification saves.
        """
        ...

    def advance(
        self,
        until: float,
        schedule: Schedule,
        probe: Probe | None,
        cost_model: CostModel | None = None,
    ) -> Tick:
        """Work until `until` with this schedule; a probe runs at once on its pod, on top of the schedule.

        cost_model: for the fast loop of every engine, which then chooses K in place of the schedule.
        """
        ...


@dataclass(slots=True)
class ProbeRun:
    """A running probe on one pod. It ends with its last part or at its deadline."""

    low: int
    high: int | None
    slices: list[tuple[int, float]]  # K, engine seconds left
    deadline: float  # seconds

    @classmethod
    def begin(cls, probe: Probe, now: float, deadline_seconds: float) -> ProbeRun:
        """Nothing has run yet."""
        slices = [(s.num_speculative_tokens, s.seconds) for s in probe.slices if s.seconds > 0]
        return cls(probe.low, probe.high, slices, now + deadline_seconds)

    def k_for(self, batch_size: float, now: float) -> tuple[int, float] | None:
        """Return K and remaining engine seconds of the probe's current part; None: the schedule applies."""
        if not self.slices or now >= self.deadline:
            return None
        return self.slices[0] if self.low <= batch_size <= (self.high or batch_size) else None

    def spend(self, seconds: float) -> None:
        """Use up engine time of the current part."""
        k, left = self.slices[0]
        if left - seconds > 1e-9:
            self.slices[0] = (k, left - seconds)
        else:
            self.slices.pop(0)


def follow(
    running: ProbeRun | None, probe: Probe | None, *, pod: str, now: float, replaced: bool, deadline: float
) -> ProbeRun | None:
    """A pod's probe after a decision: another table ends it, and a new one starts only where none runs."""
    alive = running is not None and running.slices and now < running.deadline and not replaced
    if alive:
        return running
    return ProbeRun.begin(probe, now, deadline) if probe is not None and probe.pod == pod else None


def pod_names(count: int) -> Sequence[str]:
    """Stable names, in order."""
    return [f"default/engine-{index}" for index in range(count)]


def noise_factor(noise: float, seconds: float, rng: np.random.Generator) -> float:
    """Measured over true goodput of one measurement of so many seconds. noise: relative, 1 sigma."""
    sigma = noise * sqrt(NOISE_SECONDS / seconds)
    return max(_MIN_FACTOR, 1.0 + sigma * float(rng.standard_normal()))
