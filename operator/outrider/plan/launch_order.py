"""What of the tuner's order about the engines' launch the spec allows."""

from __future__ import annotations

from outrider.api.launch import Launch, LaunchOrder
from outrider.api.schedule import Schedule
from outrider.api.spec import Spec
from outrider.api.speculation import Actuation, Canary, StructuralOff, TuningMode


def effective_order(spec: Spec, order: LaunchOrder) -> LaunchOrder:
    """The part of ``order`` that holds; the rest was allowed once and is ignored.

    Nothing holds unless the mode is Auto. Applied twice it changes nothing more.
    """
    if spec.tuning_mode is not TuningMode.AUTO:
        return LaunchOrder()
    launch = _launch(spec, order.launch)
    return LaunchOrder(launch, canary=order.canary and launch.drafter and _has_room_for_a_canary(spec))


def _launch(spec: Spec, launch: Launch) -> Launch:
    if not launch.drafter:
        allowed = spec.speculation.tuning.structural_off is StructuralOff.ALLOW
        return Launch(drafter=False) if allowed else Launch()
    if launch.schedule is None or not _is_launchable(spec, launch.schedule):
        return Launch()
    return launch


def _is_launchable(spec: Spec, schedule: Schedule) -> bool:
    rollout = spec.speculation.tuning.actuation is Actuation.ROLLOUT
    return rollout and schedule.values() <= set(spec.draft_lengths())


def _has_room_for_a_canary(spec: Spec) -> bool:
    tuning = spec.speculation.tuning
    return tuning.canary is Canary.ALLOW and tuning.actuation is Actuation.LIVE and spec.replicas >= 2
