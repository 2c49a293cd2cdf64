"""The policies of a comparison, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from outrider.api.text import whole_number
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.policy import Policy
from outrider_lab.rivals.adaptive_steps import AdaptiveSteps
from outrider_lab.rivals.bandit import Bandit
from outrider_lab.rivals.baselines import (
    AcceptanceThresholds,
    AcceptedLengthAverage,
    OffBelowLength,
    OffBelowRate,
)
from outrider_lab.rivals.latency_steps import LatencySteps
from outrider_lab.rivals.model_only import ModelOnly
from outrider_lab.rivals.profiled import Goodput, OfflineProfile, profiled_table
from outrider_lab.rivals.taught import profiled_model
from outrider_lab.rivals.tuners import Fixed, Law, Oracle, Tuner, hand_table
from outrider_protocol.schedule import Schedule

STATIC = "static:"
"""Before the K of a constant table."""


@dataclass(frozen=True)
class Brief:
    """What a policy may know before a run."""

    law: Policy
    oracle: Mapping[float, int]  # best K by the second at which a phase begins; for `oracle` alone
    step_times: StepTimeProfile | None = None  # what the engines measured; for the tuner alone

    profile: OfflineProfile | None = None  # for rules that rest on one

    def profiled(self) -> OfflineProfile:
        """Return the offline profile; raise ValueError if there is none."""
        if self.profile is None:
            raise ValueError("this rule needs an offline profile")
        return self.profile

    def outrider(self, *, teaches: bool = True) -> Law:
        """Return the tuner, which starts from the hand-written schedule."""
        static = hand_table(self.law.candidates)
        return Law(self.law, static, teaches=teaches, step_times=self.step_times)


_MAKERS: Mapping[str, Callable[[Brief], Tuner]] = {
    "outrider": lambda brief: brief.outrider(),
    "outrider-schedule": lambda brief: brief.outrider(teaches=False),
    "hand": lambda brief: Fixed(hand_table(brief.law.candidates)),
    "acceptance": lambda brief: AcceptanceThresholds(brief.law),
    "acceptance-off": lambda brief: OffBelowRate(brief.law),
    "length-off": lambda brief: OffBelowLength(brief.law),
    "ema": lambda brief: AcceptedLengthAverage(brief.law),
    "sglang": lambda brief: AdaptiveSteps(brief.law),
    "vllm-profile": lambda brief: Fixed(profiled_table(brief.profiled(), brief.law)),
    "turbospec": lambda brief: Goodput(brief.law, brief.profiled()),
    "fast-loop": lambda brief: Fixed(
        hand_table(brief.law.candidates), profiled_model(brief.profiled(), brief.law)
    ),
    "latency-steps": lambda brief: LatencySteps(brief.law),
    "model": lambda brief: ModelOnly(brief.law),
    "bandit": lambda brief: Bandit(brief.law),
    "oracle": lambda brief: Oracle(brief.oracle),
}

NAMES = (*_MAKERS, f"{STATIC}K")
"""All policies; K stands for a number."""


def make(name: str, brief: Brief) -> Tuner:
    """A fresh policy.

    Raises:
        ValueError: unknown name, or a static K that is not a candidate.
    """
    if name.startswith(STATIC):
        return Fixed(Schedule.constant(_static_k(name, brief.law)))
    if name not in _MAKERS:
        raise ValueError(f"unknown policy {name!r}, known are: {', '.join(NAMES)}")
    return _MAKERS[name](brief)


def _static_k(name: str, law: Policy) -> int:
    k = whole_number(name.removeprefix(STATIC), most=max(law.candidates))
    if k is None or k not in law.candidates:
        known = ", ".join(map(str, law.candidates))
        raise ValueError(f"{name}: K must be one of the table's {known}")
    return k
