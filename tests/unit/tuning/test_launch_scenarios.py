"""Law and relaunch rules together, on engines that follow every order within a tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log1p

import pytest

from outrider.api.launch import Launch
from outrider.api.reasons import LaunchReason
from outrider.api.schedule import Schedule
from outrider.api.speculation import Actuation, StructuralOff
from outrider.tuning.decision import Decision
from outrider.tuning.law import decide
from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch.rules import Relaunching, Scene, Verdict, judge
from outrider.tuning.relaunch.state import RelaunchState
from outrider.tuning.state import TunerState
from tests.unit.tuning.factories import (
    CODE,
    Engine,
    a_cell,
    a_policy,
    a_window,
    an_exact_window,
    true_goodput,
)

HOUR = 3600.0
TAX = 0.15
STATIC = Schedule.constant(3)


@dataclass
class Model:
    """One pod. stock: the engine has no plugin, so it exports sums only and gets its table at its launch.

    tick: seconds between two; a minute where a day goes by, which no number of these rules is near to.
    """

    limits: Relaunching
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
        scene = Scene(
            self.limits,
            self.decision,
            self.static,
            replicas=1,
            ready=1,
            as_ordered=1,
            canaries=0,
            now=self.now,
        )
        verdict = judge(scene, self.relaunches, self.policy)
        self.relaunches = verdict.state
        self.verdicts.append(verdict)
        if verdict.state.order.launch != launch:
            self.launches.append((self.now, str(verdict.state.order.launch)))

    def _decide(self, launch: Launch) -> Decision:
        if not launch.drafter:
            return decide(
                [], self.tuner, policy=self.policy, now=self.now, without_drafter=[self._without_drafter()]
            )
        if self.stock:
            table = launch.schedule or self.static
            window, policy = self._sums(table), self.policy.relaunching()
            return decide([window], self.tuner, policy=policy, now=self.now, in_force=table)
        window = Engine(self.batch, table=self.rates).window(
            self.decision, self.tuner, seconds=self.tick, at=self.now
        )
        return decide([window], self.tuner, policy=self.policy, now=self.now)

    def _without_drafter(self) -> Window:
        goodput = true_goodput(self.batch, 0) * (1 + TAX)
        cell = a_cell(batch=self.batch, k=0, goodput=goodput, seconds=self.tick)
        return an_exact_window(cell, at=self.now, batch=self.batch)

    def _sums(self, table: Schedule) -> Window:
        k = table.k_at(self.batch)
        goodput = true_goodput(self.batch, k, self.rates)
        return a_window(batch=self.batch, k=k, goodput=goodput, seconds=self.tick, ended_at=self.now)


def test_a_drafter_that_does_not_pay_goes_and_returns_when_the_load_has_fallen() -> None:
    model = Model(Relaunching(structural_off=StructuralOff.ALLOW), batch=1.0, tick=60.0)
    model.spend(600.0)
    model.batch = 16.0
    model.spend(2 * HOUR)
    assert [launch for _, launch in model.launches] == ["no-drafter"]
    tax = model.tuner.tax
    assert tax is not None
    assert tax.mean == pytest.approx(log1p(TAX), abs=0.03)
    told = [v.measured_gain for v in model.verdicts if v.measured_gain is not None]
    assert len(told) == 1

    model.spend(12 * HOUR)
    assert len(model.launches) == 1
    assert model.verdicts[-1].reason is LaunchReason.NO_BETTER_LAUNCH

    model.batch = 1.0
    model.spend(HOUR)
    assert [launch for _, launch in model.launches] == ["no-drafter", ""]
    model.spend(2 * HOUR)
    assert len(model.launches) == 2


def test_stock_engines_find_their_table_by_rolling_restarts() -> None:
    model = Model(Relaunching(actuation=Actuation.ROLLOUT), stock=True, batch=16.0, tick=60.0)
    model.spend(24 * HOUR)
    table = model.relaunches.order.launch.schedule
    assert table is not None
    assert table.k_at(16) == 0
    assert len(model.launches) <= 3


def test_a_table_found_at_one_load_serves_the_others_or_is_changed_with_care() -> None:
    model = Model(Relaunching(actuation=Actuation.ROLLOUT), stock=True, tick=60.0)
    for batch in (16.0, 1.0, 32.0, 4.0) * 2:
        model.batch = batch
        model.spend(1.5 * HOUR)
        table = model.relaunches.order.launch.schedule or STATIC
        best = max(true_goodput(batch, k) for k in model.policy.candidates)
        assert true_goodput(batch, table.k_at(batch)) >= 0.9 * best


def test_a_guess_that_proves_slower_is_taken_back_and_rarely_made_again() -> None:
    """The acceptance that is taken for granted of an unknown drafter is not there."""
    bad = {b: (row[0], *(0.3 * g for g in row[1:])) for b, row in CODE.items()}
    model = Model(
        Relaunching(actuation=Actuation.ROLLOUT),
        stock=True,
        batch=1.0,
        rates=bad,
        static=Schedule.constant(0),
        tick=60.0,
    )
    model.spend(24 * HOUR)
    assert model.launches
    assert model.launches[-1][1] == ""
    away = sum(b - a for (a, launch), (b, _) in pairwise(model.launches) if launch)
    assert away <= 10 * model.tick
