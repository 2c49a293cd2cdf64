"""Pure planning: from a SpeculativeModel to the child objects that carry it out."""

from outrider.plan.children import Manifest
from outrider.plan.planner import Plan, plan
from outrider.plan.settings import PlanSettings

__all__ = ["Manifest", "Plan", "PlanSettings", "plan"]
