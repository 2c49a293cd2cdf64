"""The current batch bin of the engines, its estimates, and the words for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Kind, Proposal
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.observe.readings import Readings
from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider.tuning.state import BinState, TunerState

_NOTHING = Readings((), 0, exact=False)


@dataclass(frozen=True)
class TickContext:
    """One tick, seen from the bin in which the engines spent most of their time."""

    state: TunerState
    policy: Policy
    now: float  # unix seconds
    interval: float  # seconds until the next tick
    bin: int
    beliefs: Mapping[int, Posterior]  # by bin
    readings: Readings
    windows: tuple[Window, ...]
    bare: Readings = _NOTHING  # of launches without a drafter

    @property
    def belief(self) -> Posterior:
        """The estimates of the bin."""
        return self.beliefs[self.bin]

    @property
    def bin_state(self) -> BinState:
        """The state of the bin."""
        return self.state.bins[self.bin]

    @property
    def tax(self) -> IdleDrafterOverhead:
        """The current estimate of the overhead of the idle drafter."""
        estimation = self.policy.estimation
        return (self.state.tax or IdleDrafterOverhead.prior(estimation)).at(self.now, estimation)

    @property
    def compares(self) -> bool:
        """Whether a launch without a drafter runs beside these, and the overhead is not known yet."""
        return bool(self.bare.rows) and self.tax.deviation > self.policy.relaunch.canary_deviation

    @property
    def waiting(self) -> float | None:
        """Requests that wait for a place, over all pods; None while a pod lacks this gauge."""
        told = [w.requests_waiting for w in self.windows if w.requests_waiting is not None]
        return sum(told) if len(told) == len(self.windows) else None

    @property
    def kv_usage_ratio(self) -> float | None:
        """KV cache usage of the fullest pod, 0..1; None while a pod lacks this gauge."""
        told = [w.kv_usage_ratio for w in self.windows if w.kv_usage_ratio is not None]
        return max(told, default=0.0) if len(told) == len(self.windows) else None

    def with_state(self, state: TunerState) -> TickContext:
        """The same with another state."""
        return self if state is self.state else replace(self, state=state)

    def of_step_times_alone(self) -> TickContext:
        """The same where engines count acceptance themselves: what other K teach are step times alone."""
        return replace(self, beliefs={i: belief.of_step_times_alone() for i, belief in self.beliefs.items()})

    def hold(self, reason: DecisionReason, words: str) -> Proposal:
        """Nothing changes, and why."""
        return Proposal(Kind.HOLD, reason, self.say(words), self.state)

    def hold_settled(self) -> Proposal:
        """Nothing changes, since nothing better is known."""
        k = self.bin_state.k
        return self.hold(DecisionReason.SETTLED, f"K {k} is the best known, {self.rate(k)}")

    def say(self, words: str) -> str:
        """A sentence about this bin."""
        return f"batch {self.policy.label(self.bin)}: {words}"

    def rate(self, k: int) -> str:
        """For instance ``566 tok/s``."""
        return f"{self.belief.goodput(k):.0f} tok/s"
