"""The facts that one tick of one model starts from, and what follows from them alone. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.api.tuning import TuningMode
from outrider.controller.fleet import TunedModel
from outrider.controller.tune.launch_side import LaunchSide
from outrider.controller.tune.launching import launched_table
from outrider.controller.tune.permission import Permission
from outrider.tuning.decision import Decision
from outrider.tuning.observe.window import Observation
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider_protocol.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Tick:
    """The facts that one tick starts from."""

    model: TunedModel
    policy: Policy
    permission: Permission
    term: int
    now: float  # unix seconds
    seconds: float  # between ticks

    @property
    def decides(self) -> bool:
        """Whether the tuner decides."""
        return self.permission.active and self.model.mode is not TuningMode.OFF

    def context(
        self,
        side: LaunchSide,
        state: TunerState,
        observed: tuple[Observation, ...],
        *,
        policy: Policy,
    ) -> TickContext:
        """What the tuner decides about the pods of a side from. state: of that side."""
        in_force = None
        if not self.model.can.live_schedule:
            policy, in_force = policy.relaunching(), launched_table(self.model)
        elif self.model.mode is TuningMode.OBSERVE:
            in_force = self.model.static
        return TickContext(
            observed,
            state,
            policy=policy,
            now=self.now,
            in_force=in_force,
            step_times=None if side.profile is None else side.profile.among(policy.candidates),
            tick_seconds=self.seconds,
        )

    def wanted(self, decision: Decision | None, state: TunerState) -> Schedule:
        """The schedule of a side. state: of that side."""
        if not self.model.can.live_schedule:
            return launched_table(self.model)
        if self.permission.table is not None:
            return self.permission.table
        if self.model.mode is not TuningMode.AUTO:
            return self.model.static
        return state.schedule if decision is None else decision.schedule
