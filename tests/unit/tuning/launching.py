"""Decisions, and pods which follow an order of launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log

import numpy as np

from outrider.api.launch import DrafterTrial, Launch, RelaunchPolicy
from outrider.api.reasons import DecisionReason
from outrider.api.tuning import Canary, StructuralOff
from outrider.tuning.decision import Decision, Kind, Outlook, Structural
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch.inputs import RelaunchInput, Verdict
from outrider.tuning.relaunch.judge import judge
from outrider.tuning.relaunch.state import RelaunchState
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import (
    CANDIDATES,
    CODE,
    POLICY,
    Engine,
    a_cell,
    a_policy,
    a_start,
    a_window,
    an_exact_window,
    true_goodput,
)

HOUR, TICK = 3600.0, 60.0
ALLOW = RelaunchPolicy(structural_off=StructuralOff.ALLOW)
RECOMMEND = RelaunchPolicy(structural_off=StructuralOff.RECOMMEND)
CANARY = RelaunchPolicy(canary=Canary.ALLOW)
AUTO = RelaunchPolicy(compares=True)
"""verification: Auto"""


def an_outlook(
    *,
    rates: dict[int, float] | None = None,
    error: float = 0.01,
    measured: dict[int, float] | None = None,
    overhead: IdleDrafterOverhead | None = None,
) -> Outlook:
    """At batch 8. rates: goodput by K; those not named have 100."""
    goodput = [log((rates or {}).get(k, 100.0)) for k in CANDIDATES]
    n = len(CANDIDATES)
    belief = Posterior(CANDIDATES, 8.0, np.array(goodput), np.eye(n) * error**2 / 2, np.zeros(n))
    return Outlook(
        belief,
        measured or {},
        drafting=-0.1,
        drafting_error=0.05,
        overhead=overhead or IdleDrafterOverhead(0.1, 0.05**2),
    )


def a_decision(
    outlook: Outlook | None = None,
    *,
    structural: Structural = Structural.KEEP,
    table: Schedule | None = None,
) -> Decision:
    state = a_start() if table is None else replace(a_start(), schedule=table)
    outlook = replace(outlook or an_outlook(), structural=structural)
    return Decision(Kind.HOLD, DecisionReason.SETTLED, "", state, state.schedule, outlook=outlook)


def with_outlook(decision: Decision, **changes: object) -> Decision:
    """The decision with other estimates at the current load."""
    outlook = decision.outlook or an_outlook()
    return replace(decision, outlook=replace(outlook, **changes))  # type: ignore[arg-type]


@dataclass
class Plant:
    """Pods that follow every order within one tick, unless they are stuck."""

    limits: RelaunchPolicy
    replicas: int = 1
    now: float = 0.0
    stuck: bool = False
    canary_serves: bool = True
    adaptive_refusal: str = ""
    trial: DrafterTrial | None = None
    state: RelaunchState = field(default_factory=RelaunchState)
    running: Launch = field(default_factory=Launch)
    verdicts: list[Verdict] = field(default_factory=list)
    relaunches: list[tuple[float, str]] = field(default_factory=list)

    def tick(self, decision: Decision | None) -> Verdict:
        before = self.state.order
        canaries = int(before.canary is not None and self.canary_serves)
        if not self.stuck:
            self.running = before.launch
        ready = self.replicas - canaries
        as_ordered = ready if self.running == before.launch else 0
        inputs = RelaunchInput(
            self.limits,
            decision,
            Schedule.constant(3),
            self.replicas,
            ready,
            as_ordered,
            canaries,
            self.now,
            adaptive_refusal=self.adaptive_refusal,
            trial=self.trial,
        )
        verdict = judge(inputs, self.state, POLICY)
        self.state = verdict.state
        if self.state.order.launch != before.launch:
            self.relaunches.append((self.now, str(self.state.order.launch)))
        self.verdicts.append(verdict)
        self.now += TICK
        return verdict

    def spend(self, seconds: float, decision: Decision | None) -> Verdict:
        until = self.now + seconds
        while self.now < until:
            self.tick(decision)
        return self.verdicts[-1]

    def until_relaunched(self, decision: Decision) -> None:
        before = len(self.relaunches)
        while len(self.relaunches) == before:
            assert self.now < 7 * 24 * HOUR
            self.tick(decision)


OFF = a_decision(structural=Structural.OFF)
ON = a_decision(structural=Structural.ON)
KEEP = a_decision()


TAX = 0.15
STATIC = Schedule.constant(3)


@dataclass
class Model:
    """One pod. stock: the engine has no plugin, so it exports sums only and gets its table at its launch.

    tick: seconds between two; a minute where a day goes by, which no number of these rules is near to.
    """

    limits: RelaunchPolicy
    stock: bool = False
    batch: float = 16.0
    static: Schedule = STATIC
    rates: Mapping[int, Sequence[float]] = field(default_factory=lambda: CODE)
    policy: Policy = field(default_factory=a_policy)
    tick: float = 30.0
    now: float = 0.0
    tuner: TunerState = field(init=False)
    relaunches: RelaunchState = field(default_factory=RelaunchState)
    decision: Decision | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    launches: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tuner = TunerState.start(self.static, self.policy)

    def spend(self, seconds: float) -> Decision:
        until = self.now + seconds
        while self.now < until:
            self.now += self.tick
            self.one_tick()
        assert self.decision is not None
        return self.decision

    def one_tick(self) -> None:
        launch = self.relaunches.order.launch
        self.decision = self._decide(launch)
        self.tuner = self.decision.state
        inputs = RelaunchInput(
            self.limits,
            self.decision,
            self.static,
            replicas=1,
            ready=1,
            as_ordered=1,
            canaries=0,
            now=self.now,
        )
        verdict = judge(inputs, self.relaunches, self.policy)
        self.relaunches = verdict.state
        self.verdicts.append(verdict)
        if verdict.state.order.launch != launch:
            self.launches.append((self.now, str(verdict.state.order.launch)))

    def _decide(self, launch: Launch) -> Decision:
        if not launch.drafter:
            return decide(
                TickContext(
                    [],
                    self.tuner,
                    policy=self.policy,
                    now=self.now,
                    without_drafter=[self._without_drafter()],
                )
            )
        if self.stock:
            table = launch.schedule or self.static
            window, policy = self._sums(table), self.policy.relaunching()
            return decide(TickContext([window], self.tuner, policy=policy, now=self.now, in_force=table))
        window = Engine(self.batch, table=self.rates).window(
            self.decision, self.tuner, seconds=self.tick, at=self.now
        )
        return decide(TickContext([window], self.tuner, policy=self.policy, now=self.now))

    def _without_drafter(self) -> Window:
        goodput = true_goodput(self.batch, 0) * (1 + TAX)
        cell = a_cell(batch=self.batch, k=0, goodput=goodput, seconds=self.tick)
        return an_exact_window(cell, at=self.now, batch=self.batch)

    def _sums(self, table: Schedule) -> Window:
        k = table.k_at(self.batch)
        goodput = true_goodput(self.batch, k, self.rates)
        return a_window(batch=self.batch, k=k, goodput=goodput, seconds=self.tick, ended_at=self.now)
