"""The state about relaunches between ticks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field

from outrider.api.launch import Launch, LaunchOrder
from outrider.tuning.bounded_types import Log, UnixSeconds, Whole, Words
from outrider.tuning.estimate.contrast import Contrasts


@dataclass(frozen=True, slots=True)
class Refused:
    """A launch that failed or was slower, and when it may be repeated."""

    launch: Words  # as `Launch` writes it
    until: UnixSeconds
    why: Words = ""  # for a launch that engines refuse


@dataclass(frozen=True, slots=True)
class LaunchGain:
    """Log goodput of one launch over another one, each with its tuned K.

    Adaptive over fixed verification, or a new drafter over the one before.
    """

    mean: Log
    low: Log  # of the 95 % interval
    high: Log
    measured_at: UnixSeconds

    def favours(self, *, first: bool, min_gain: float) -> bool:
        """Return True if a launch is better beyond the interval, and by at least ``min_gain``."""
        sign = 1.0 if first else -1.0
        return sign * self.mean >= min_gain and min(sign * self.low, sign * self.high) > 0


@dataclass(frozen=True, slots=True)
class RelaunchState:
    """Immutable; every verdict carries the next one."""

    order: LaunchOrder = field(default_factory=LaunchOrder)
    before: Launch = field(default_factory=Launch)  # of the replicas, before the last relaunch
    started_at: UnixSeconds | None = None  # of the last relaunch of the replicas
    done_at: UnixSeconds | None = None  # when all pods ran it; None while it is under way
    taken_back: Words = ""  # why the last relaunch is rolled back; "" if it is not
    gain_told: bool = True  # of the last relaunch
    strikes: Whole = 0  # relaunches in a row that failed or gained nothing
    refused: Annotated[tuple[Refused, ...], Field(max_length=64)] = ()
    wish: Words | None = None  # the launch that looks better, as `Launch` writes it
    wished_at: UnixSeconds | None = None  # since when it does so without a break
    canary_at: UnixSeconds | None = None  # when the last canary was ordered
    canary_ready_at: UnixSeconds | None = None  # from which on it served
    compared_at: UnixSeconds | None = None  # when the last canary with the other verification was ordered
    compared: Words = ""  # revisions of the pods behind `contrasts`
    contrasts: Contrasts = field(
        default_factory=Contrasts
    )  # of that canary, adaptive over fixed or new drafter
    verification: LaunchGain | None = None  # of the last complete comparison
    trial: Words = ""  # revision of the spec whose drafter was tried last
    drafter: LaunchGain | None = None  # the result of that trial, new over before
    drafter_name: Words = ""  # address of the drafter behind that result

    @property
    def under_way(self) -> bool:
        """A relaunch has begun and not ended."""
        return self.started_at is not None and self.done_at is None

    def seen(self, *, complete: bool, canary: bool, now: float) -> RelaunchState:
        """Update from the pods. complete: all wanted pods are ready and launched as ordered."""
        state = replace(self, refused=tuple(r for r in self.refused if r.until > now))
        if state.under_way and complete:
            state = replace(state, done_at=now)
        tried = bool(state.trial)
        if (tried or state.order.canary is not None) and canary and state.canary_ready_at is None:
            state = replace(state, canary_ready_at=now)
        return state

    def adopting(self, order: LaunchOrder, now: float) -> RelaunchState:
        """Take over a stored order that differs: another process gave or withdrew it."""
        state = self
        if order.launch != self.order.launch:
            state = replace(
                state, before=self.order.launch, started_at=now, done_at=None, taken_back="", gain_told=True
            )
        if order.canary is not None and order.canary != self.order.canary:
            state = state.measuring(order.canary, now)
        return replace(state, order=order)

    def measuring(self, canary: Launch, now: float) -> RelaunchState:
        """Order a canary."""
        order = replace(self.order, canary=canary)
        state = replace(self, order=order, canary_at=now, canary_ready_at=None)
        if not canary.drafter:
            return state
        return replace(state, compared_at=now, compared="", contrasts=Contrasts())

    def trying(self, spec: str, now: float) -> RelaunchState:
        """Begin the trial of a drafter, whose canary the reconciler launches."""
        return replace(
            self.without_canary().without_verdict(),
            trial=spec,
            drafter=None,
            drafter_name="",
            canary_at=now,
            compared="",
            contrasts=Contrasts(),
            wish=None,
            wished_at=None,
        )

    def without_verdict(self) -> RelaunchState:
        """Drop an order about a drafter that was carried out, or that the spec has no longer."""
        return replace(self, order=replace(self.order, drafter=None))

    def without_canary(self) -> RelaunchState:
        """End the canary."""
        return replace(self, order=replace(self.order, canary=None), canary_ready_at=None)

    def refusal(self, launch: str) -> str:
        """Return why engines refuse a launch, "" if they do not."""
        return next((r.why for r in self.refused if r.launch == launch and r.why), "")

    def wishing(self, launch: str, now: float) -> RelaunchState:
        """Record a launch that looks better, and when it first did."""
        return self if self.wish == launch else replace(self, wish=launch, wished_at=now)

    def refused_until(self, launch: str) -> float:
        """Return the unix time until which a launch is refused, in the past if it is not."""
        return max((r.until for r in self.refused if r.launch == launch), default=float("-inf"))

    def relaunched(self, launch: Launch, now: float, *, within: float) -> RelaunchState:
        """Begin a relaunch. A drafter that is removed again soon after its return counts as a failure."""
        strikes = self.strikes
        if not launch.drafter and self.started_at is not None:
            returned = self.order.launch.drafter and not self.before.drafter
            strikes = strikes + 1 if returned and now - self.started_at < within else 0
        return replace(
            self._to(launch, now), taken_back="", gain_told=False, strikes=strikes, wish=None, wished_at=None
        )

    def back(self, refused: Refused, why: str, now: float) -> RelaunchState:
        """Roll back the last relaunch."""
        state = replace(self._to(self.before, now), taken_back=why, refused=(*self.refused, refused))
        return replace(state, gain_told=True, wish=None, wished_at=None)

    def without_adaptive(self, refused: Refused, now: float) -> RelaunchState:
        """End adaptive verification in replicas and canary, because engines refuse it."""
        state = replace(self.without_canary(), refused=(*self.refused, refused), wish=None, wished_at=None)
        if not self.order.launch.adaptive:
            return state
        return replace(state._to(Launch(), now), taken_back=refused.why, gain_told=True)

    def _to(self, launch: Launch, now: float) -> RelaunchState:
        order = replace(self.order, launch=launch)
        return replace(self, order=order, before=self.order.launch, started_at=now, done_at=None)
