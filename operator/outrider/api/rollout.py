"""``spec.rollout``: how pods are replaced after a change of the pod template."""

from __future__ import annotations

import re
from enum import StrEnum

from outrider.api.base import ApiModel, rule
from outrider.api.quantity import IntOrPercent, Patience

_OVER_100 = "^([2-9][0-9]{2}|1(0[1-9]|[1-9][0-9]))%$"


class OnFailure(StrEnum):
    """The action after a failed rollout."""

    ROLL_BACK = "RollBack"
    HOLD = "Hold"


class DisruptionBudget(StrEnum):
    """The PodDisruptionBudget of a model."""

    AUTO = "Auto"
    NEVER = "Never"


class Rollout(ApiModel):
    """Replacement of pods after a change of the pod template."""

    max_surge: IntOrPercent = 1
    """Maximum pods above spec.replicas during a rollout, as a number or percentage. Default: 1."""
    max_unavailable: IntOrPercent = 0
    """Maximum pods below spec.replicas during a rollout, as a number or percentage. Default: 0."""
    progress_deadline: Patience = "20m"
    """Time without progress after which a rollout has failed. At least 10s. Default: 20m."""
    on_failure: OnFailure = OnFailure.ROLL_BACK
    """Action after a failed rollout. RollBack (default): Outrider restores the last good revision until the
    spec asks for other pods. Hold: the pods stay as they are."""
    surge_timeout: Patience = "5m"
    """Time for which an additional pod may be unschedulable. After it, Outrider replaces serving pods one at
    a time. This needs two or more replicas, `maxUnavailable: 0` and a longer progressDeadline. At least 10s.
    Default: 5m."""
    disruption_budget: DisruptionBudget = DisruptionBudget.AUTO
    """Auto (default): with two or more replicas, a PodDisruptionBudget lets drains evict one at a time.
    Never: for your own budget, because Kubernetes evicts no pod that two budgets select."""

    @rule(
        "!((self.maxSurge == 0 || self.maxSurge == '0%') && "
        "(self.maxUnavailable == 0 || self.maxUnavailable == '0%'))",
        "spec.rollout: maxSurge and maxUnavailable must not both be 0; raise one of them",
        field=".maxSurge",
    )
    def _a_rollout_can_move(self) -> bool:
        return not (self.max_surge in (0, "0%") and self.max_unavailable in (0, "0%"))

    @rule(
        f"type(self.maxUnavailable) == int || !string(self.maxUnavailable).matches('{_OVER_100}')",
        "spec.rollout.maxUnavailable is {maxUnavailable}: a Deployment takes 100% at most",
        field=".maxUnavailable",
    )
    def _no_more_than_all_are_unavailable(self) -> bool:
        return isinstance(self.max_unavailable, int) or not re.fullmatch(_OVER_100, self.max_unavailable)
