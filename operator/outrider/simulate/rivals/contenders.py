"""The policies of a comparison, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from outrider.api.schedule import Schedule
from outrider.api.text import whole_number
from outrider.simulate.rivals.bandit import Bandit
from outrider.simulate.rivals.baselines import AcceptanceThresholds, AcceptedLengthAverage
from outrider.simulate.rivals.model_only import ModelOnly
from outrider.simulate.rivals.tuners import Fixed, Law, Oracle, Tuner, hand_table
from outrider.tuning.policy import Policy

STATIC = "static:"
"""Before the K of a constant table."""


@dataclass(frozen=True)
class Brief:
    """What a policy may know before a run."""

    law: Policy
    oracle: Mapping[float, int]  # best K by the second at which a phase begins; for `oracle` alone
    stock: bool = False  # the engines count no cells and run no probes


_MAKERS: Mapping[str, Callable[[Brief], Tuner]] = {
    "outrider": lambda brief: Law(brief.law, hand_table(brief.law.candidates), stock=brief.stock),
    "outrider-stock": lambda brief: Law(brief.law, hand_table(brief.law.candidates), stock=True),
    "hand": lambda brief: Fixed(hand_table(brief.law.candidates)),
    "acceptance": lambda brief: AcceptanceThresholds(brief.law),
    "ema": lambda brief: AcceptedLengthAverage(brief.law),
    "model": lambda brief: ModelOnly(brief.law),
    "bandit": lambda brief: Bandit(brief.law, stock=brief.stock),
    "oracle": lambda brief: Oracle(brief.oracle),
}

NAMES = (*_MAKERS, f"{STATIC}K")
"""All policies; K stands for a number."""


def make(name: str, brief: Brief) -> Tuner:
    """A fresh policy.

    Raises:
        ValueError: unknown name, or a static K that is no candidate.
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
