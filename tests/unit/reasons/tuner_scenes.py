"""What a tick may find, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import UTC, datetime

from outrider.api.conditions import Condition, ConditionUpdate
from outrider.api.launch import RelaunchPolicy
from outrider.api.reasons import ConditionReason
from outrider.api.status import Speedup, SpeedupReference
from outrider.api.tuning import Canary, StructuralOff
from outrider.controller.fleet import EnginePod
from outrider.controller.tune.conditions import statements
from outrider.controller.tune.drafter_health import Answers
from outrider.controller.tune.launching import LaunchOutcome
from outrider.controller.tune.outcome import Actuated, Observed, TickOutcome
from outrider.controller.tune.permission import PermissionInput, permission
from outrider.engine.client import EngineAddress
from outrider.engine.signing import SigningKey
from outrider.tuning.decision import Acceptance
from outrider.tuning.latency_targets import RecentLatencies
from outrider.tuning.relaunch.inputs import Verdict
from tests.unit.tuning.factories import a_window
from tests.unit.tuning_loop.factories import NOW, a_model

POD = EnginePod("m-1", EngineAddress("http://m-1", "uid-1", SigningKey.generate()))
ALLOWED = RelaunchPolicy(structural_off=StructuralOff.ALLOW, canary=Canary.ALLOW)
MODEL = replace(a_model(POD), relaunching=ALLOWED)


LONG_ANSWERS = Answers(requests=10, tokens=10_000)


def an_outcome(**changes: object) -> TickOutcome:
    """Of a tick that found nothing in particular. changes: also of the parts of the outcome."""
    outcome = TickOutcome(
        model=MODEL,
        now=NOW,
        permission=permission(PermissionInput(MODEL.instructions, MODEL.mode, NOW, settled_at=0.0)),
        decision=None,
        before=MODEL.static,
        wanted=MODEL.static,
        observed=Observed((a_window(),)),
        actuated=Actuated(MODEL.static),
    )
    for part in ("observed", "actuated", "engines"):
        whole = getattr(outcome, part)
        own = {field.name: changes.pop(field.name) for field in fields(whole) if field.name in changes}
        outcome = replace(outcome, **{part: replace(whole, **own)})
    return replace(outcome, **changes)  # type: ignore[arg-type]


def told(
    outcome: TickOutcome,
    *,
    before: tuple[Condition, ...] = (),
    rate: float | None = None,
    speedup: tuple[float, float] | None = None,
    latencies: RecentLatencies | None = None,
) -> list[ConditionReason]:
    """The reasons of what is said after a tick. rate: of acceptance. speedup: its interval."""
    acceptance = None if rate is None else Acceptance(rate, 1 + rate, (rate,), drafts=1000)
    said = statements(
        outcome,
        before=before,
        latencies=latencies or RecentLatencies(),
        acceptance=acceptance,
        answers=LONG_ANSWERS,
        speedup=_speedup(speedup),
    )
    return reasons(said)


def reasons(said: Iterable[ConditionUpdate]) -> list[ConditionReason]:
    """Of statements."""
    return [each.reason for each in said]


def a_launch(verdict: Verdict) -> TickOutcome:
    """A tick that ended with this verdict on the launch."""
    return an_outcome(launch=LaunchOutcome(verdict.state.order, verdict))


def _speedup(interval: tuple[float, float] | None) -> Speedup | None:
    if interval is None:
        return None
    low, high = interval
    return Speedup(
        ratio=(low + high) / 2,
        low=low,
        high=high,
        reference=SpeedupReference.PROBE,
        measured_at=datetime.fromtimestamp(NOW, UTC),
    )
