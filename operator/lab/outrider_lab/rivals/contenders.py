"""The policies of a comparison, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from outrider.api.text import whole_number
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.policy import Policy
from outrider_lab.engines.verification.setting import PROFILE_CONTEXT, SEPARATION, AdaptiveVerification
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
from outrider_lab.rivals.nightjar import Nightjar
from outrider_lab.rivals.profiled import Goodput, OfflineProfile, profiled_table
from outrider_lab.rivals.steered import Steered
from outrider_lab.rivals.taught import profiled_model
from outrider_lab.rivals.throughput_aware import ThroughputAware, measured_costs
from outrider_lab.rivals.tuners import Fixed, Law, Oracle, Tuner, hand_table
from outrider_lab.rivals.ucb_specstop import UcbSpecStop
from outrider_protocol.schedule import Schedule

STATIC = "static:"
"""Before the K of a constant table."""
ADAPTIVE_STATIC = "adaptive-static:"
"""The same with adaptive verification."""


@dataclass(frozen=True)
class Brief:
    """What a policy may know before a run."""

    law: Policy
    oracle: Mapping[float, int]  # best K by the second at which a phase begins; for `oracle` alone
    step_times: StepTimeProfile | None = None  # what the engines measured; for the tuner alone

    profile: OfflineProfile | None = None  # for rules that rest on one
    verification: AdaptiveVerification = field(default_factory=AdaptiveVerification)  # where a policy has it

    def profiled(self) -> OfflineProfile:
        """Return the offline profile; raise ValueError if there is none."""
        if self.profile is None:
            raise ValueError("this rule needs an offline profile")
        return self.profile

    def outrider(self, *, teaches: bool = True) -> Law:
        """Return the tuner, which starts from the hand-written schedule."""
        static = hand_table(self.law.candidates)
        return Law(self.law, static, teaches=teaches, step_times=self.step_times)

    def above_verification(self, *, profiled: bool = False) -> Law:
        """Return the tuner above adaptive verification.

        profiled: with the startup profile, whose steps verify all drafts, so that K above 0 looks too slow.
        """
        static = hand_table(self.law.candidates)
        step_times = self.step_times if profiled else None
        return Law(self.law, static, step_times=step_times, verification=self.verification)


_MAKERS: Mapping[str, Callable[[Brief], Tuner]] = {
    "outrider": lambda brief: brief.outrider(),
    "outrider-schedule": lambda brief: brief.outrider(teaches=False),
    "hand": lambda brief: Fixed(hand_table(brief.law.candidates)),
    "acceptance": lambda brief: AcceptanceThresholds(brief.law),
    "acceptance-off": lambda brief: OffBelowRate(brief.law),
    "length-off": lambda brief: OffBelowLength(brief.law),
    "ema": lambda brief: AcceptedLengthAverage(brief.law),
    "sglang": lambda brief: Steered(lambda: AdaptiveSteps(brief.law)),
    "sglang-throughput": lambda brief: _throughput_aware(brief),
    "ucb-specstop": lambda brief: Steered(lambda: UcbSpecStop(brief.law)),
    "nightjar": lambda brief: Steered(lambda: Nightjar(brief.law)),
    "adaptive": lambda brief: Fixed(
        Schedule.constant(max(brief.law.candidates)), verification=brief.verification
    ),
    "outrider-adaptive": lambda brief: brief.above_verification(),
    "outrider-adaptive-profile": lambda brief: brief.above_verification(profiled=True),
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

ADAPTIVE = ("adaptive", "outrider-adaptive", "outrider-adaptive-profile")
"""Policies with vLLM's adaptive verification, whose drafter can be described after a colon."""
NAMES = (*_MAKERS, f"{STATIC}K", f"{ADAPTIVE_STATIC}K")
"""All policies; K stands for a number."""


def make(name: str, brief: Brief) -> Tuner:
    """A fresh policy.

    Raises:
        ValueError: unknown name, a static K that is not a candidate, or a verification without sense.
    """
    for prefix, verification in ((STATIC, None), (ADAPTIVE_STATIC, brief.verification)):
        if name.startswith(prefix):
            k = _static_k(name, prefix, brief.law)
            return Fixed(Schedule.constant(k), verification=verification)
    name, *numbers = name.split(":")
    if numbers and name in ADAPTIVE:
        brief = replace(brief, verification=_verification(name, numbers))
    elif numbers:
        name = ":".join((name, *numbers))
    if name not in _MAKERS:
        raise ValueError(f"unknown policy {name!r}, known are: {', '.join(NAMES)}")
    return _MAKERS[name](brief)


def _throughput_aware(brief: Brief) -> Tuner:
    costs = measured_costs(brief.profiled().step_times)
    return Steered(lambda: ThroughputAware(brief.law, costs))


def _verification(name: str, numbers: Sequence[str]) -> AdaptiveVerification:
    """Of `adaptive:SEPARATION:CONTEXT`, the second of which may be left out."""
    try:
        separation, context, *more = *map(float, numbers), *(PROFILE_CONTEXT,)[len(numbers) - 1 :]
    except ValueError:
        separation, context, more = SEPARATION, 0.0, [0.0]
    if more or not 0.5 <= separation < 1.0 or not 0.0 < context < inf:
        raise ValueError(
            f"{name} takes the separation of the drafter, from 0.5 to below 1, and the tokens of context at "
            f"which vLLM measures costs. {':'.join(numbers)} is neither. Write {name}:0.865:8192"
        )
    return AdaptiveVerification(separation, context)


def _static_k(name: str, prefix: str, law: Policy) -> int:
    k = whole_number(name.removeprefix(prefix), most=max(law.candidates))
    if k is None or k not in law.candidates:
        known = ", ".join(map(str, law.candidates))
        raise ValueError(f"{name}: K must be one of the table's {known}")
    return k
