"""Every reason of conditions, Events and decisions. The modules that this one imports have their meanings.

To add a reason, add a member with its meaning and what to do: `outrider status` prints it, and
`docs/runbooks/conditions.md` is generated.
"""

from __future__ import annotations

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
    SLOReason,
    TuningReason,
)

__all__ = [
    "ActuationReason",
    "AdviceReason",
    "ConditionReason",
    "DecisionReason",
    "DegradedReason",
    "DrafterReason",
    "EffectiveReason",
    "EventReason",
    "LaunchReason",
    "MetricsReason",
    "ProgressingReason",
    "ReadyReason",
    "SLOReason",
    "TuningReason",
]


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
    | SLOReason
)
"""Every reason that a condition can have."""
