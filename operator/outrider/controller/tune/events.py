"""The Events of a tick, on transitions only. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from outrider.api.conditions import Condition, ConditionStatus, ConditionType, Manager, conditions_owned_by
from outrider.api.reasons import EventReason, LaunchReason, TuningReason
from outrider.api.tuning import StructuralOff
from outrider.controller.tune.outcome import TickOutcome
from outrider.controller.tune.report import TunerReport
from outrider.tuning.decision import Kind

_BEGINS = {
    TuningReason.PAUSED: EventReason.PAUSED,
    TuningReason.OVERRIDDEN: EventReason.OVERRIDE_BEGAN,
    TuningReason.OVERRIDE_EXPIRED: EventReason.OVERRIDE_ENDED,
    TuningReason.ANNOTATION_REFUSED: EventReason.ANNOTATION_REFUSED,
}
_ENDS = {
    TuningReason.PAUSED: EventReason.RESUMED,
    TuningReason.OVERRIDDEN: EventReason.OVERRIDE_ENDED,
}


@dataclass(frozen=True, slots=True)
class Event:
    """An Event to emit."""

    reason: EventReason
    note: str


def events(outcome: TickOutcome, *, before: TunerReport, after: TunerReport) -> Iterator[Event]:
    """The Events for the changes between two reports."""
    if outcome.reset is not None:
        yield Event(EventReason.TUNER_RESET, outcome.reset)
    yield from _of_decision(outcome)
    for kind in conditions_owned_by(Manager.TUNER):
        if kind is ConditionType.ACTUATION_CONVERGED and outcome.actuated.launched is not None:
            continue  # a rolling restart takes minutes
        if kind.events is not None:
            yield from _of_condition(before.condition(kind), after.condition(kind), kind.events)
    kind = ConditionType.TUNING_ACTIVE
    yield from _of_tuning(_reason(before.condition(kind)), _reason(after.condition(kind)), outcome)
    yield from _of_launch(outcome)
    kind = ConditionType.LAUNCH_OPTIMAL
    yield from _of_advice(before.condition(kind), after.condition(kind), outcome)


def _of_decision(outcome: TickOutcome) -> Iterator[Event]:
    decision = outcome.decision
    if outcome.relaunches_tables:
        return
    if decision is not None and decision.changed and decision.kind is not Kind.HOLD:
        if outcome.observes:
            change = f"{outcome.wanted.merged()} -> {decision.schedule.merged()}"
            yield Event(
                EventReason.WOULD_RETUNE, f"Mode Auto would change the schedule {change}: {decision.sentence}"
            )
        else:
            yield Event(EventReason.RETUNED, decision.sentence)


def _of_condition(
    was: Condition | None, now: Condition | None, reasons: tuple[EventReason, EventReason]
) -> Iterator[Event]:
    if now is None or (was is not None and was.status is now.status):
        return
    if now.status is ConditionStatus.FALSE:
        yield Event(reasons[0], now.message)
    elif was is not None:
        yield Event(reasons[1], now.message)


def _of_tuning(was: TuningReason | None, now: TuningReason | None, outcome: TickOutcome) -> Iterator[Event]:
    message = outcome.permission.message
    if was is now:
        return
    ended = _ENDS.get(was) if was is not None else None
    began = _BEGINS.get(now) if now is not None else None
    if ended is not None:
        yield Event(ended, message)
    if began is not None and began is not ended:
        yield Event(began, message)


def _of_launch(outcome: TickOutcome) -> Iterator[Event]:
    found = outcome.actuated.launch
    if found is None or not found.ordered:
        return
    was, now, sentence = found.before, found.verdict.state.order, found.verdict.sentence
    if now.launch != was.launch:
        back = found.verdict.reason is LaunchReason.RELAUNCH_ROLLED_BACK
        reason = EventReason.RELAUNCH_ROLLED_BACK if back else EventReason.RELAUNCHED
        yield Event(reason, sentence)
    if now.canary != was.canary:
        ended = now.canary is None
        yield Event(EventReason.CANARY_ENDED if ended else EventReason.CANARY_STARTED, sentence)
    if now.drafter is not None and now.drafter != was.drafter:
        promoted = now.drafter.promoted
        yield Event(EventReason.DRAFTER_PROMOTED if promoted else EventReason.DRAFTER_KEPT, sentence)


def _of_advice(was: Condition | None, now: Condition | None, outcome: TickOutcome) -> Iterator[Event]:
    advises = outcome.model.relaunching.structural_off is StructuralOff.RECOMMEND
    if not advises or now is None or now.reason != LaunchReason.DRAFTER_IDLE:
        return
    if was is None or was.reason != now.reason:
        yield Event(EventReason.RELAUNCH_ADVISED, now.message)


def _reason(condition: Condition | None) -> TuningReason | None:
    return next((known for known in TuningReason if condition and condition.reason == known), None)
