"""A model whose tuner has learned, as the cluster stores it."""

from __future__ import annotations

from dataclasses import replace

from outrider.api.tuning import TuningMode
from outrider.controller.tune.snapshot import TunerSnapshot, write_snapshot
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.state import CanaryState, TunerState
from outrider_protocol.schedule import Schedule
from tests.unit.tuning_loop.factories import a_model

MODEL = a_model()
CHOSEN = Schedule.constant(5)


def knowledge(*, table: Schedule = CHOSEN, mode: TuningMode = TuningMode.AUTO) -> str:
    """As an earlier process kept it: this table was chosen for the model's own static one."""
    return _stored(replace(_unmeasured(), schedule=table, static=table), mode)


def after_canary(overhead: IdleDrafterOverhead | None) -> str:
    """What launches without a drafter showed is all that is known."""
    return _stored(replace(_unmeasured(), canary=CanaryState(overhead)))


def _unmeasured() -> TunerState:
    return TunerState.start(MODEL.static, MODEL.policy)


def _stored(state: TunerState, mode: TuningMode = TuningMode.AUTO) -> str:
    return write_snapshot(TunerSnapshot(mode, MODEL.static, state, {}))
