"""What Outrider's plugin can do in a running SGLang; a stock engine has none of it."""

from __future__ import annotations

from outrider.api.spec import Spec
from outrider.runtimes.control import NO_CONTROL, EngineControl
from outrider_protocol.methods import Method
from outrider_protocol.sglang_releases import ADAPTIVE_SINCE

_TUNED = (*ADAPTIVE_SINCE, Method.NONE)
"""Method none is that of `spec.target`, too, whose engines say themselves what they can."""


def control(spec: Spec) -> EngineControl:
    """The abilities of the engines of `spec`. Each engine reports at run time what it refuses after all."""
    if spec.rolls_out or spec.speculation.method not in _TUNED:
        return NO_CONTROL
    return EngineControl(reads_state=True, live_schedule=True, probes=True, cost_model=True)
