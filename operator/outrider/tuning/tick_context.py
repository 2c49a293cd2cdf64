"""The context of one tick: its inputs, and what the stages of `tuner.py` find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Kind, Proposal
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.observe.readings import Readings
from outrider.tuning.observe.window import Observation, Window
from outrider.tuning.policy import Policy
from outrider.tuning.state import BinState, TunerState
from outrider_protocol.schedule import Schedule

_NO_READINGS = Readings((), 0, exact=False)


@dataclass(frozen=True)
class TickContext:
    """One tick, built once. `bin` and what refers to it exist only with readings."""

    observations: Sequence[Observation]
    """One per ready pod, in any order. Windows of neighbouring ticks must not overlap, and none may begin
    before the wanted schedule was confirmed."""
    state: TunerState
    _: KW_ONLY
    policy: Policy
    now: float
    """Unix seconds."""
    in_force: Schedule | None = None
    """The schedule of the engines where decisions are not carried out (mode Observe, or
    `policy.relaunching()`); then nothing is probed. None: the wanted one of `state`."""
    without_drafter: Sequence[Observation] = ()
    """Observations of pods that were launched without a drafter. They show the overhead of the idle drafter,
    and the load where no other pod is measured."""
    other_launch: Sequence[Observation] = ()
    """Observations of pods that draft and verify in the other way (`Launch.adaptive`)."""
    step_times: StepTimeProfile | None = None
    """The profile that these engines measured before they served; None without one."""
    tick_seconds: float = 0.0
    """Until the next tick, by which a probe has ended; 0: as long as since the last one."""
    readings: Readings = _NO_READINGS
    undrafted: Readings = _NO_READINGS
    """Readings of pods without a drafter."""
    compared: Readings = _NO_READINGS
    """Readings of the other launch."""
    posteriors: Mapping[int, Posterior] = field(default_factory=dict)
    """The estimates of every batch bin, by its index."""
    chosen: Proposal | None = None
    """The choice of K for the current bin, before a probe is considered."""

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The observations that are measurements."""
        return tuple(o for o in self.observations if isinstance(o, Window))

    @property
    def bin(self) -> int:
        """The batch bin in which the engines spent most of their time."""
        found = self.readings.bin
        if found is None:
            raise ValueError("no readings, so there is no current batch bin")
        return found

    @property
    def posterior(self) -> Posterior:
        """The estimates of the current bin."""
        return self.posteriors[self.bin]

    @property
    def bin_state(self) -> BinState:
        """The state of the current bin."""
        return self.state.bins[self.bin]

    @property
    def noise(self) -> float:
        """The relative noise of step times; see `Learning.noise`."""
        return self.state.learning.noise(self.policy.estimation)

    @property
    def overhead(self) -> IdleDrafterOverhead:
        """The current estimate of the overhead of the idle drafter."""
        estimation = self.policy.estimation
        known = self.state.canary.overhead or IdleDrafterOverhead.prior(estimation)
        return known.at(self.now, estimation)

    @property
    def waiting(self) -> float | None:
        """Requests that wait for a place, over all pods; None while a pod lacks this gauge."""
        known = [w.requests_waiting for w in self.windows if w.requests_waiting is not None]
        return sum(known) if len(known) == len(self.windows) else None

    @property
    def kv_usage_ratio(self) -> float | None:
        """KV cache usage of the fullest pod, 0..1; None while a pod lacks this gauge."""
        known = [w.kv_usage_ratio for w in self.windows if w.kv_usage_ratio is not None]
        return max(known, default=0.0) if len(known) == len(self.windows) else None

    def with_state(self, state: TunerState) -> TickContext:
        """The same with another state."""
        return self if state is self.state else replace(self, state=state)

    def hold(self, reason: DecisionReason, sentence: str) -> Proposal:
        """A proposal to keep K in the current bin."""
        return Proposal(Kind.HOLD, reason, self.say(sentence), self.state)

    def hold_settled(self) -> Proposal:
        """A proposal to keep K, because no better one is known."""
        k = self.bin_state.k
        return self.hold(DecisionReason.SETTLED, f"K {k} is the best known, {self.rate(k)}")

    def say(self, sentence: str) -> str:
        """A sentence about the current bin, with its label."""
        return f"batch {self.policy.label(self.bin)}: {sentence}"

    def rate(self, k: int) -> str:
        """The estimated goodput of K, for instance ``566 tok/s``."""
        return f"{self.posterior.goodput(k):.0f} tok/s"
