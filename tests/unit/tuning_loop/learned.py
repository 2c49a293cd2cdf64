"""A model whose tuner has learned, as the cluster stores it."""

from __future__ import annotations

from dataclasses import replace

from outrider.api.tuning import TuningMode
from outrider.controller.tune.snapshot import TunerSnapshot, write_snapshot
from outrider.tuning.state import TunerState
from outrider_protocol.schedule import Schedule
from tests.unit.tuning_loop.factories import a_model

MODEL = a_model()
CHOSEN = Schedule.constant(5)


def knowledge(*, table: Schedule = CHOSEN, mode: TuningMode = TuningMode.AUTO) -> str:
    """As an earlier process kept it: this table was chosen for the model's own static one."""
    state = replace(TunerState.start(MODEL.static, MODEL.policy), schedule=table, static=table)
    return write_snapshot(TunerSnapshot(mode, MODEL.static, state, {}))
