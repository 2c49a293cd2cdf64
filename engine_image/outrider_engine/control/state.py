"""The answer of ``GET /outrider/v1/state``, as plain types that cross process borders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, cast

from outrider_engine import __version__
from outrider_engine.control.fast_loop_chooser import no_fast_loop
from outrider_engine.control.self_test import SelfTest
from outrider_engine.control.startup_profile import StartupProfile
from outrider_engine.counting.adapters import AdapterSums
from outrider_engine.counting.measure import CellSums
from outrider_engine.counting.trimmed import TrimmedDrafts
from outrider_protocol.engine_state import LiveTuning, Source, State, StepTime


class Measurement(TypedDict):
    """What one engine core has counted since it started. ``lookup``: K by batch size, index 0 unused."""

    state: State
    lookup: list[int] | None
    cells: list[CellSums]
    stepTimes: list[StepTime]
    hookSeconds: float
    hookFailures: int
    drafterStepsSkipped: int
    drafterTokensCaughtUp: int
    adapters: list[AdapterSums]
    requestLimits: dict[str, int]
    requestsByRule: dict[str, int]
    withheldDraftTokens: int
    longestStepSeconds: float


PER_ENGINE_FIELDS = frozenset(
    {"bootId", "leaseRemainingSeconds", "fastLoop", "selfTest", "startupProfile", "stepTimes"}
)
"""Fields that differ between engines of one pod that agree."""


def unavailable(reason: str) -> State:
    """The state of an engine that the plugin cannot read."""
    return State(
        bootId="",
        engineVersion=None,
        pluginVersion=__version__,
        simulated=None,
        method=None,
        runner=None,
        cudaGraphs=None,
        maxNumSeqs=None,
        numSpeculativeTokens=None,
        capturedK=[],
        liveTuning=LiveTuning(possible=False, reason=reason),
        schedule=None,
        source=Source.STATIC.value,
        term=0,
        epoch=0,
        leaseRemainingSeconds=None,
        measuring=False,
        probe=None,
        verification=TrimmedDrafts(0, adaptive=False).to_wire(),
        fastLoop=no_fast_loop(reason),
        idleDrafter=None,
        selfTest=SelfTest().to_wire(),
        startupProfile=StartupProfile().to_wire(),
        engines=1,
        enginesAgree=True,
        problems=[],
    )


def unmeasured(reason: str) -> Measurement:
    """The measurement of an engine that the plugin cannot read."""
    return Measurement(
        state=unavailable(reason),
        lookup=None,
        cells=[],
        stepTimes=[],
        hookSeconds=0.0,
        hookFailures=0,
        drafterStepsSkipped=0,
        drafterTokensCaughtUp=0,
        adapters=[],
        requestLimits={},
        requestsByRule={},
        withheldDraftTokens=0,
        longestStepSeconds=0.0,
    )


def merge(states: Sequence[State], *, obstacle: str | None) -> State:
    """One state for all engines of a pod, and for a data-parallel group that this pod is a part of.

    obstacle: why a group of this size cannot be tuned; None where it can.
    """
    merged = cast(State, dict(states[0]))
    merged["bootId"] = "+".join(state["bootId"] for state in states)
    merged["engines"] = len(states)
    merged["enginesAgree"] = all(_shared(state) == _shared(states[0]) for state in states)
    if obstacle is not None:
        merged["liveTuning"] = LiveTuning(possible=False, reason=obstacle)
        merged["fastLoop"] = no_fast_loop(obstacle)
    return merged


def _shared(state: State) -> dict[str, object]:
    return {name: value for name, value in state.items() if name not in PER_ENGINE_FIELDS}
