"""Law and relaunch rules together, on engines that follow every order within a tick."""

from __future__ import annotations

from itertools import pairwise
from math import log1p

import pytest

from outrider.api.launch import RelaunchPolicy
from outrider.api.reasons import LaunchReason
from outrider.api.tuning import Actuation, StructuralOff
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import (
    CODE,
    true_goodput,
)
from tests.unit.tuning.launching import HOUR, STATIC, TAX, Model


def test_a_drafter_that_does_not_pay_goes_and_returns_when_the_load_has_fallen() -> None:
    model = Model(RelaunchPolicy(structural_off=StructuralOff.ALLOW), batch=1.0, tick=60.0)
    model.spend(600.0)
    model.batch = 16.0
    model.spend(2 * HOUR)
    assert [launch for _, launch in model.launches] == ["no-drafter"]
    tax = model.tuner.canary.overhead
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
    model = Model(RelaunchPolicy(actuation=Actuation.ROLLOUT), stock=True, batch=16.0, tick=60.0)
    model.spend(24 * HOUR)
    table = model.relaunches.order.launch.schedule
    assert table is not None
    assert table.k_at(16) == 0
    assert len(model.launches) <= 3


def test_a_table_found_at_one_load_serves_the_others_or_is_changed_with_care() -> None:
    model = Model(RelaunchPolicy(actuation=Actuation.ROLLOUT), stock=True, tick=60.0)
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
        RelaunchPolicy(actuation=Actuation.ROLLOUT),
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
