"""Every reason of an Event is really emitted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from inspect import isawaitable

import pytest

from outrider.api.conditions import Condition, ConditionStatus, ConditionUpdate, conditions_of
from outrider.api.launch import DrafterVerdict, Launch, LaunchOrder, RelaunchPolicy
from outrider.api.reasons import (
    ActuationReason,
    ConditionReason,
    DegradedReason,
    EventReason,
    LaunchReason,
    MetricsReason,
    TuningReason,
)
from outrider.api.status import Status
from outrider.api.tuning import StructuralOff, TuningMode
from outrider.cluster.errors import Refused
from outrider.controller.reconcile.readiness import DegradedCause, blocked, judge
from outrider.controller.reconcile.report import transitions
from outrider.controller.tune.events import events
from outrider.controller.tune.launching import LaunchOutcome
from outrider.controller.tune.outcome import TickOutcome
from outrider.controller.tune.report import TunerReport
from outrider.engine.client import EngineClient
from outrider.tuning.decision import Kind
from outrider.tuning.relaunch.inputs import Verdict
from outrider.tuning.relaunch.state import RelaunchState
from outrider_protocol.schedule import Schedule
from tests.unit.controller.factories import NOW, a_pod, a_workload
from tests.unit.reasons.tuner_scenes import MODEL, an_outcome
from tests.unit.tuning.launching import a_decision
from tests.unit.tuning_loop.factories import World, step

Told = Sequence[EventReason]
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE

SERVES = judge(a_workload(a_pod(ready=True)), NOW)
STARTS = judge(a_workload(a_pod()), NOW)
IN_PLACE = judge(replace(a_workload(a_pod()), in_place=True), NOW)
TAKEN = blocked(DegradedCause(DegradedReason.NAME_TAKEN, "a Service m"))


def as_written(*said: ConditionUpdate) -> tuple[Condition, ...]:
    return conditions_of(said, before=(), generation=1, now=NOW)


def passes(before: tuple[ConditionUpdate, ...], after: tuple[ConditionUpdate, ...]) -> Told:
    """Events of reconcile between two states of a model."""
    return [reason for reason, _ in transitions(Status(conditions=list(as_written(*before))), after)]


def ticked(outcome: TickOutcome, before: TunerReport | None = None, after: TunerReport | None = None) -> Told:
    found = events(outcome, before=before or TunerReport(), after=after or TunerReport())
    return [event.reason for event in found]


def turned(status: ConditionStatus, was: ConditionReason | None, now: ConditionReason) -> Told:
    """A condition of the tuner turned to this status."""
    other = TRUE if status is FALSE else FALSE
    before = () if was is None else as_written(ConditionUpdate(other, was, "before"))
    after = as_written(ConditionUpdate(status, now, "after"))
    return ticked(an_outcome(), TunerReport(conditions=before), TunerReport(conditions=after))


def ordered(order: LaunchOrder, reason: LaunchReason, *, before: LaunchOrder | None = None) -> Told:
    verdict = Verdict(replace(RelaunchState(), order=order), reason, "words")
    return ticked(an_outcome(launch=LaunchOutcome(before or LaunchOrder(), verdict)))


def retuned(mode: TuningMode) -> Told:
    decision = replace(a_decision(), before=Schedule.constant(5), kind=Kind.EXPLOIT)
    return ticked(an_outcome(model=replace(MODEL, mode=mode), decision=decision))


def advised() -> Told:
    recommends = replace(MODEL, relaunching=RelaunchPolicy(structural_off=StructuralOff.RECOMMEND))
    after = as_written(ConditionUpdate(FALSE, LaunchReason.DRAFTER_IDLE, "idle"))
    return ticked(an_outcome(model=recommends), after=TunerReport(conditions=after))


async def looped(world: World) -> Told:
    """By a tick of the whole loop."""
    client = EngineClient(timeout_seconds=1.0)
    try:
        with world.loop(client) as loop:
            await step(loop)
    finally:
        await client.aclose()
    return [reason for reason, _ in world.events]


def a_world() -> World:
    return World([replace(MODEL, pods=())])


async def state_ignored() -> Told:
    world = a_world()
    world.kept[MODEL.uid] = "no JSON"
    return await looped(world)


async def state_not_kept() -> Told:
    world = a_world()
    world.defects["write", MODEL.name] = Refused("quota")
    return await looped(world)


async def cpu_overspent() -> Told:
    world = a_world()
    world.timing = {"cpu": 0.0}
    return await looped(world)


BARE, CANARY = LaunchOrder(Launch(drafter=False)), LaunchOrder(canary=Launch(drafter=False))

SCENES: Mapping[EventReason, Callable[[], Told | Awaitable[Told]]] = {
    EventReason.READY: lambda: passes(STARTS, SERVES),
    EventReason.NOT_READY: lambda: passes(SERVES, STARTS),
    EventReason.DEGRADED: lambda: passes(SERVES, TAKEN),
    EventReason.RECOVERED: lambda: passes(TAKEN, SERVES),
    EventReason.ROLLING_OUT_IN_PLACE: lambda: passes(STARTS, IN_PLACE),
    EventReason.RETUNED: lambda: retuned(TuningMode.AUTO),
    EventReason.WOULD_RETUNE: lambda: retuned(TuningMode.OBSERVE),
    EventReason.ACTUATION_FAILED: lambda: turned(
        FALSE, ActuationReason.CONVERGED, ActuationReason.ENGINE_UNREACHABLE
    ),
    EventReason.ACTUATION_RECOVERED: lambda: turned(
        TRUE, ActuationReason.ENGINE_UNREACHABLE, ActuationReason.CONVERGED
    ),
    EventReason.METRICS_LOST: lambda: turned(FALSE, MetricsReason.FRESH, MetricsReason.STALE),
    EventReason.METRICS_RECOVERED: lambda: turned(TRUE, MetricsReason.STALE, MetricsReason.FRESH),
    EventReason.PAUSED: lambda: turned(FALSE, TuningReason.TUNING, TuningReason.PAUSED),
    EventReason.RESUMED: lambda: turned(TRUE, TuningReason.PAUSED, TuningReason.TUNING),
    EventReason.OVERRIDE_BEGAN: lambda: turned(FALSE, TuningReason.TUNING, TuningReason.OVERRIDDEN),
    EventReason.OVERRIDE_ENDED: lambda: turned(TRUE, TuningReason.OVERRIDDEN, TuningReason.TUNING),
    EventReason.ANNOTATION_REFUSED: lambda: turned(TRUE, None, TuningReason.ANNOTATION_REFUSED),
    EventReason.RELAUNCHED: lambda: ordered(BARE, LaunchReason.RELAUNCHING),
    EventReason.RELAUNCH_ROLLED_BACK: lambda: ordered(
        LaunchOrder(), LaunchReason.RELAUNCH_ROLLED_BACK, before=BARE
    ),
    EventReason.RELAUNCH_ADVISED: advised,
    EventReason.CANARY_STARTED: lambda: ordered(CANARY, LaunchReason.CANARY_RUNNING),
    EventReason.CANARY_ENDED: lambda: ordered(LaunchOrder(), LaunchReason.NO_BETTER_LAUNCH, before=CANARY),
    EventReason.DRAFTER_PROMOTED: lambda: ordered(
        LaunchOrder(drafter=DrafterVerdict("s2", promoted=True)), LaunchReason.RELAUNCHING
    ),
    EventReason.DRAFTER_KEPT: lambda: ordered(
        LaunchOrder(drafter=DrafterVerdict("s2", promoted=False)), LaunchReason.DRAFTER_KEPT
    ),
    EventReason.TUNER_RESET: lambda: ticked(an_outcome(reset="on request")),
    EventReason.STATE_IGNORED: state_ignored,
    EventReason.STATE_NOT_SAVED: state_not_kept,
    EventReason.CPU_BUDGET_EXCEEDED: cpu_overspent,
}


@pytest.mark.parametrize("reason", EventReason)
async def test_it_is_told(reason: EventReason) -> None:
    assert reason in SCENES, f"add a scene of {reason!r} to {__file__}"
    told = SCENES[reason]()
    assert reason in (await told if isawaitable(told) else told)
