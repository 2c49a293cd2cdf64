"""What Outrider's plugin can do in a running vLLM; a stock engine has none of it."""

from __future__ import annotations

from outrider.api.spec import Spec
from outrider.api.tuning import Actuation
from outrider.runtimes.control import NO_CONTROL, EngineControl
from outrider_protocol.methods import K0, Method


def control(spec: Spec) -> EngineControl:
    """The abilities of the engines of `spec`. Each engine reports at run time what it refuses after all."""
    tuning = spec.speculation.tuning
    if tuning.actuation is Actuation.ROLLOUT:
        return NO_CONTROL
    return EngineControl(
        reads_state=True,
        live_schedule=True,
        probes=True,
        cost_model=True,
        skips_idle_drafter=spec.speculation.method is Method.DRAFT_MODEL and tuning.k0 is not K0.SYNC,
    )
