"""When a canary takes the place of a replica, and gives it back, without a gap in between."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from outrider.api.launch import Launch, LaunchOrder
from outrider.api.spec import Spec


@dataclass(frozen=True, slots=True)
class Serving:
    """Pods that take traffic."""

    replicas: int = 0
    """Pods of any revision, without canaries."""
    canaries: int = 0
    """Canary pods of the present spec."""
    canary: Launch | None = None
    """Their launch; None without them."""


class CanaryStage(Enum):
    """How far a canary has come."""

    ABSENT = "absent"
    BESIDE = "beside"
    """It runs besides all replicas: before it serves, and until its replica serves again."""
    INSTEAD = "instead"
    """It stands in for one replica."""


def canary_stage(spec: Spec, order: LaunchOrder, serving: Serving) -> CanaryStage:
    """Where the canary stands. ``order`` is one that the spec allows.

    Without room for a surge it takes the place of a replica at once.
    """
    surge = spec.rollout.max_surge not in (0, "0%")
    if order.canary is not None:
        return CanaryStage.BESIDE if surge and not serving.canaries else CanaryStage.INSTEAD
    going = surge and serving.canaries and serving.replicas < spec.replicas
    return CanaryStage.BESIDE if going else CanaryStage.ABSENT
