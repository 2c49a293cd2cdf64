"""Pods that come and go by the operator's launch orders, under simulated traffic.

`decide`, `judge`, `RelaunchPolicy.effective` and `permission` are the operator's own functions. A pod that
starts takes `START_SECONDS`. It then replaces a serving one: a surge of one pod. A replaced pod's unfinished
requests begin again in the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import expm1

import numpy as np

from outrider.api.annotations import Instructions
from outrider.api.launch import LaunchOrder, RelaunchPolicy
from outrider.api.tuning import TuningMode
from outrider.controller.tune.permission import PermissionInput, permission
from outrider.tuning.cost_model import next_cost_model
from outrider.tuning.decision import Decision, Probe, Speedup
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.observe.window import Observation, Window
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch.inputs import RelaunchInput
from outrider.tuning.relaunch.judge import judge
from outrider.tuning.relaunch.state import RelaunchState
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from outrider_lab.engines.event_fleet import EventFleet, Plant
from outrider_lab.engines.fleet import Span
from outrider_lab.rivals.tuners import hand_table
from outrider_lab.traffic.requests import Trace, Traffic
from outrider_protocol.cost_model import CostModel
from outrider_protocol.schedule import Schedule

START_SECONDS = 228.0
"""From the order of a pod until it serves: the longest start that was measured on an H200 (2026-11-26)."""
TICK_SECONDS = 10.0
SETTLE_SECONDS = 30.0
"""Default of the operator."""


@dataclass(frozen=True)
class Place:
    """Engines, traffic of each pod, and what the spec allows. slowness: one factor per replica."""

    plant: Plant
    phases: tuple[Traffic, ...]
    candidates: tuple[int, ...]
    limits: RelaunchPolicy
    slowness: tuple[float, ...]
    canary_slowness: float
    seed: int
    step_times: StepTimeProfile | None = None

    @property
    def horizon(self) -> float:
        """Seconds."""
        return sum(phase.seconds for phase in self.phases)


@dataclass
class Pod:
    """A pod from its start. ready_at: seconds."""

    name: str
    slot: int
    drafter: bool
    canary: bool
    ready_at: float
    fleet: EventFleet


@dataclass(frozen=True, slots=True)
class Moment:
    """What one tick did. spans: of pods with a drafter, and of those without one."""

    at: float
    drafting: tuple[Span, ...]
    bare: tuple[Span, ...]
    speedup: Speedup | None
    order: LaunchOrder
    reason: str


@dataclass
class Run:
    """A run so far."""

    place: Place
    pods: list[Pod] = field(default_factory=list)
    starting: Pod | None = None
    started: int = 0
    """Pods that started after the first ones."""
    moments: list[Moment] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with all replicas."""
        self._names = count()
        self._policy = Policy(self.place.candidates, self.place.plant.limits.max_num_seqs).paced(
            self.place.limits
        )
        self._state = TunerState.start(hand_table(self.place.candidates), self._policy)
        self._launches, self._order = RelaunchState(), LaunchOrder()
        self._cost_model: CostModel | None = None
        self._settled_at = float("-inf")
        self.pods = [
            self._pod(slot, 0.0, drafter=True, canary=False) for slot in range(len(self.place.slowness))
        ]
        self._ready = {pod.name for pod in self.pods}
        first = self._decide((), (), 0.0)
        self._cost_model = next_cost_model(None, first)

    @property
    def measured_overhead(self) -> float | None:
        """What a canary measured of the idle drafter, relative; None without a result."""
        found = self._state.canary.overhead
        return None if found is None else expm1(found.mean)

    def all_of_it(self) -> Run:
        """Tick until the traffic ends."""
        now, probe = 0.0, None
        while now < self.place.horizon - TICK_SECONDS:
            now += TICK_SECONDS
            probe = self._tick(now, probe)
        return self

    def _pod(self, slot: int, at: float, *, drafter: bool, canary: bool) -> Pod:
        place, number = self.place, next(self._names)
        slow = place.canary_slowness if canary else place.slowness[slot]
        step = place.plant.step if drafter else place.plant.step.without_drafter()
        plant = replace(place.plant, step=step, slowness=(slow,))
        trace = Trace(_remaining(place.phases, at), seed=(place.seed + 7919 * number) % 2**32)
        rng = np.random.default_rng((place.seed, 5, number))
        fleet = EventFleet(plant, trace, edges=self._policy.bins, candidates=place.candidates, rng=rng)
        return Pod(f"default/pod-{number}", slot, drafter, canary, at, fleet)

    def _tick(self, now: float, probe: Probe | None) -> Probe | None:
        seen: dict[bool, list[Observation]] = {True: [], False: []}
        spans: dict[bool, list[Span]] = {True: [], False: []}
        schedule, model = self._state.schedule, self._cost_model
        for pod in self.pods:
            own = probe if probe is not None and probe.pod == pod.name else None
            # A fleet of one pod has one name for it.
            own = None if own is None else replace(own, pod="default/engine-0")
            table, taught = (schedule, model) if pod.drafter else (Schedule.constant(0), None)
            tick = pod.fleet.advance(now - pod.ready_at, table, own, taught)
            seen[pod.drafter] += [_at(one, pod) for one in tick.observations]
            spans[pod.drafter] += tick.spans
        self._replace(now)
        decision = self._decided(seen[True], seen[False], now)
        reason = self._judged(decision, now)
        speedup = None if decision is None else decision.speedup
        self.moments.append(
            Moment(now, tuple(spans[True]), tuple(spans[False]), speedup, self._order, reason)
        )
        return None if decision is None else decision.probe

    def _decided(
        self, drafting: Sequence[Observation], bare: Sequence[Observation], now: float
    ) -> Decision | None:
        ready = {pod.name for pod in self.pods}
        if ready != self._ready:
            self._ready, self._settled_at = ready, now + SETTLE_SECONDS
        allowed = permission(PermissionInput(Instructions(), TuningMode.AUTO, now, self._settled_at))
        if not allowed.active:
            return None
        any_drafts = any(pod.drafter for pod in self.pods)
        decision = self._decide(drafting, bare if drafting or not any_drafts else (), now)
        self._state = decision.state
        self._cost_model = next_cost_model(self._cost_model, decision)
        return decision

    def _decide(self, drafting: Sequence[Observation], bare: Sequence[Observation], now: float) -> Decision:
        return decide(
            TickContext(
                drafting,
                self._state,
                policy=self._policy,
                now=now,
                without_drafter=bare,
                step_times=self.place.step_times,
                tick_seconds=TICK_SECONDS,
            )
        )

    def _judged(self, decision: Decision | None, now: float) -> str:
        place, replicas = self.place, [pod for pod in self.pods if not pod.canary]
        wanted = self._order.launch.drafter
        inputs = RelaunchInput(
            limits=place.limits,
            decision=decision,
            static=self._state.static,
            replicas=len(place.slowness),
            ready=len(replicas),
            as_ordered=sum(pod.drafter is wanted for pod in replicas),
            canaries=len(self.pods) - len(replicas),
            now=now,
        )
        verdict = judge(inputs, self._launches, self._policy)
        self._launches = verdict.state
        self._order = place.limits.effective(
            verdict.state.order,
            mode=TuningMode.AUTO,
            candidates=place.candidates,
            replicas=len(place.slowness),
        )
        return "" if verdict.reason is None else str(verdict.reason)

    def _replace(self, now: float) -> None:
        """Put a pod that is ready in place of one of another launch, and start the next one."""
        if self.starting is not None and self.starting.ready_at <= now:
            self.pods = [self.starting if pod.slot == self.starting.slot else pod for pod in self.pods]
            # Its traffic begins when it serves.
            self.starting.ready_at = now
            self.starting = None
        if self.starting is not None or now + START_SECONDS >= self.place.horizon - TICK_SECONDS:
            return
        for pod in self.pods:
            canary = self._order.canary is not None and pod.slot == len(self.place.slowness) - 1
            drafter = self._order.launch.drafter and not canary
            if (pod.drafter, pod.canary) != (drafter, canary):
                ready = TICK_SECONDS * -(-(now + START_SECONDS) // TICK_SECONDS)
                self.starting = self._pod(pod.slot, ready, drafter=drafter, canary=canary)
                self.started += 1
                return


def _at(seen: Observation, pod: Pod) -> Observation:
    """An observation on the clock of the run."""
    if not isinstance(seen, Window):
        return replace(seen, pod=pod.name)
    begin, end = seen.started_at + pod.ready_at, seen.ended_at + pod.ready_at
    return replace(seen, pod=pod.name, started_at=begin, ended_at=end)


def _remaining(phases: Sequence[Traffic], at: float) -> tuple[Traffic, ...]:
    """Traffic from a moment on."""
    left, start = list[Traffic](), 0.0
    for phase in phases:
        end = start + phase.seconds
        if end > at:
            left.append(replace(phase, seconds=end - max(start, at)))
        start = end
    return tuple(left)
