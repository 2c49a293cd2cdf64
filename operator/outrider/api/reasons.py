"""Every condition and its reasons. The modules that this one imports have the meaning of each reason.

Conditions follow the Kubernetes conventions; one that does not apply is absent. To add a reason, add a member
with its meaning and what to do: `outrider status` prints it, and `docs/runbooks/conditions.md` is generated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Self

from outrider.api.decision_reasons import DecisionReason
from outrider.api.event_reasons import EventReason
from outrider.api.reconcile_reasons import (
    AdviceReason,
    DegradedReason,
    ProgressingReason,
    ReadyReason,
)
from outrider.api.tuning_reasons import (
    ActuationReason,
    DrafterReason,
    EffectiveReason,
    LaunchReason,
    MetricsReason,
    TuningReason,
)

__all__ = [
    "REASONS_OF",
    "ActuationReason",
    "AdviceReason",
    "ConditionReason",
    "ConditionType",
    "DecisionReason",
    "DegradedReason",
    "DrafterReason",
    "EffectiveReason",
    "EventReason",
    "LaunchReason",
    "MetricsReason",
    "ProgressingReason",
    "ReadyReason",
    "TuningReason",
    "condition_of",
    "reason_of",
]


class ConditionType(StrEnum):
    """The conditions of a SpeculativeModel."""

    _value_: str
    meaning: str
    """What True says, and when the condition is absent."""

    def __new__(cls, value: str, meaning: str) -> Self:
        """A member."""
        member = str.__new__(cls, value)
        member._value_, member.meaning = value, meaning
        return member

    READY = (
        "Ready",
        "Pods of the current spec serve. The reconciler sets it; it is never absent.",
    )
    PROGRESSING = (
        "Progressing",
        "A rollout or a download is under way. The reconciler sets it; it is never absent.",
    )
    DEGRADED = (
        "Degraded",
        "The model needs a person. The reconciler sets it; it is absent if nothing is wrong.",
    )
    KNOWN_ISSUES = (
        "KnownIssues",
        "A known limit or defect of vLLM affects this launch. Outrider launches the engines all the same. "
        "Absent if none is known.",
    )
    METRICS_AVAILABLE = (
        "MetricsAvailable",
        "Every ready pod has fresh measurements. While it is False, the schedule stays as it is and "
        "requests are served. Absent in mode Off.",
    )
    SPECULATION_EFFECTIVE = (
        "SpeculationEffective",
        "Speculation pays at the present load. Absent until it is measured.",
    )
    ACTUATION_CONVERGED = (
        "ActuationConverged",
        "Every ready pod confirmed the schedule that Outrider pushed. Absent without ready pods. A probe "
        "that could not start is in the message; it changes nothing and is repeated later.",
    )
    DRAFTER_HEALTHY = (
        "DrafterHealthy",
        "The acceptance rate of the drafter is plausible. It is measured at the first position, over the "
        "last minute: that rate does not depend on K. The rate over all draft tokens falls with K. Absent "
        "until measured.",
    )
    TUNING_ACTIVE = (
        "TuningActive",
        "The tuner may change the schedule. Absent in mode Off and without ready pods, unless there is an "
        "override, a pause or an error.",
    )
    LAUNCH_OPTIMAL = (
        "LaunchOptimal",
        "No better launch configuration of the engines is known for this load. Absent if the spec lets the "
        "tuner neither change nor judge the launch.",
    )


ConditionReason = (
    ReadyReason
    | ProgressingReason
    | DegradedReason
    | AdviceReason
    | MetricsReason
    | EffectiveReason
    | ActuationReason
    | DrafterReason
    | TuningReason
    | LaunchReason
)
"""Every reason that a condition can have."""

REASONS_OF: Mapping[ConditionType, type[ConditionReason]] = {
    ConditionType.READY: ReadyReason,
    ConditionType.PROGRESSING: ProgressingReason,
    ConditionType.DEGRADED: DegradedReason,
    ConditionType.KNOWN_ISSUES: AdviceReason,
    ConditionType.METRICS_AVAILABLE: MetricsReason,
    ConditionType.SPECULATION_EFFECTIVE: EffectiveReason,
    ConditionType.ACTUATION_CONVERGED: ActuationReason,
    ConditionType.DRAFTER_HEALTHY: DrafterReason,
    ConditionType.TUNING_ACTIVE: TuningReason,
    ConditionType.LAUNCH_OPTIMAL: LaunchReason,
}
"""The reasons of each condition; a reason belongs to one condition only."""

_CONDITION_OF = {reasons: kind for kind, reasons in REASONS_OF.items()}


def condition_of(reason: ConditionReason) -> ConditionType:
    """The condition of a reason."""
    return _CONDITION_OF[type(reason)]


def reason_of(condition: str, reason: str) -> ConditionReason | None:
    """The reason of a stored condition; None for one that this version does not have.

    condition: the type of the condition.
    """
    kind = next((known for known in ConditionType if known == condition), None)
    if kind is None:
        return None
    members: Iterable[ConditionReason] = REASONS_OF[kind]
    return next((known for known in members if known == reason), None)
