"""The input and the output of a verdict about the launch. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from outrider.api.launch import DrafterTrial, Launch, RelaunchPolicy
from outrider.api.reasons import LaunchReason
from outrider.tuning.decision import Decision, Outlook
from outrider.tuning.estimate.contrast import Contrast, Contrasts
from outrider.tuning.relaunch.state import RelaunchState
from outrider_protocol.schedule import Schedule


@dataclass(frozen=True, slots=True)
class RelaunchInput:
    """The inputs of one tick about the launch. Pods are the ready ones."""

    limits: RelaunchPolicy
    decision: Decision | None  # None: there is no decision at present
    static: Schedule  # the schedule of a launch that names none
    replicas: int  # wanted, a canary included
    ready: int  # without the canary
    as_ordered: int  # of them, those that were launched as ordered
    canaries: int
    now: float  # unix seconds
    contrast: Contrast | None = None  # of this tick, as `RelaunchState.contrasts`; None without pods of both
    adaptive_refusal: str = ""  # of an engine that ended because it cannot verify adaptively
    trial: DrafterTrial | None = None  # of the spec's drafter

    @property
    def outlook(self) -> Outlook | None:
        """Estimates at the current load; None without measurements."""
        return None if self.decision is None else self.decision.outlook

    def table(self, launch: Launch) -> Schedule:
        """Return the schedule of engines after this launch."""
        return launch.schedule or self.static


@dataclass(frozen=True, slots=True)
class Verdict:
    """The wanted launch and its reason."""

    state: RelaunchState  # its order is the wanted one
    reason: LaunchReason | None = None  # None: nothing new can be said
    sentence: str = ""
    expected_gain: float | None = None  # relative, of the relaunch that begins
    measured_gain: float | None = None  # relative, of the last relaunch, once


def with_contrast(inputs: RelaunchInput, state: RelaunchState, *, since: float) -> RelaunchState:
    """Add this tick's contrast. Pods of another revision begin the comparison anew."""
    if inputs.contrast is None or inputs.now < since:
        return state
    if state.compared != inputs.contrast.revisions:
        state = replace(state, compared=inputs.contrast.revisions, contrasts=Contrasts())
    return replace(state, contrasts=state.contrasts.after(inputs.contrast, inputs.now))
