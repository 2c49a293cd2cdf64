"""Pure planning: from a SpeculativeModel to the child objects that carry it out."""

from outrider.plan.canary import Serving
from outrider.plan.children import Manifest
from outrider.plan.planner import Plan, Rendered, plan, revision, settled
from outrider.plan.settings import ControlKeys, PlanSettings
from outrider.runtimes.engine_launch import Role

__all__ = [
    "ControlKeys",
    "Manifest",
    "Plan",
    "PlanSettings",
    "Rendered",
    "Role",
    "Serving",
    "plan",
    "revision",
    "settled",
]
