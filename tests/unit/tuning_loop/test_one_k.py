"""Engines that keep one K from start to start: a launch has the tuner's K for the current load."""

from __future__ import annotations

import pytest

from outrider.api.launch import RelaunchPolicy
from outrider.api.tuning import Actuation
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import a_policy, true_goodput
from tests.unit.tuning.launching import HOUR, Model

ONE_K = RelaunchPolicy(actuation=Actuation.ROLLOUT, one_k=True)
START = Schedule.constant(3)


def a_model(batch: float) -> Model:
    """Its K=0 is a launch without drafter."""
    policy = a_policy().changed(k0_tax=0.0, k0_tax_deviation=1e-3)
    return Model(ONE_K, stock=True, batch=batch, static=START, policy=policy, tick=60.0)


def share_of_the_best(model: Model) -> float:
    """Of the goodput that the best single K would have."""
    k = (model.relaunches.order.launch.schedule or START).k_at(1)
    goodputs = {k: true_goodput(model.batch, k) for k in model.policy.candidates}
    return goodputs[k] / max(goodputs.values())


@pytest.mark.parametrize("batch", [1.0, 4.0, 16.0, 32.0])
def test_the_k_of_the_load_is_found_by_few_restarts(batch: float) -> None:
    model = a_model(batch)
    model.spend(3 * HOUR)
    assert share_of_the_best(model) >= 0.9
    assert len(model.launches) <= 2


def test_another_load_that_stays_gets_another_k_and_never_a_table_of_several() -> None:
    model = a_model(16.0)
    found = []
    for batch in (16.0, 1.0, 16.0):
        model.batch = batch
        model.spend(1.5 * HOUR)
        found.append(share_of_the_best(model))
    assert min(found) >= 0.9
    launched = [Schedule.parse(launch) for _, launch in model.launches if launch]
    assert launched
    assert all(len(table.values()) == 1 for table in launched)


def test_a_load_that_goes_before_it_was_there_long_enough_restarts_nothing() -> None:
    model = a_model(1.0)
    model.spend(1.5 * HOUR)
    before = list(model.launches)
    for _ in range(4):
        model.batch = 16.0
        model.spend(120.0)
        model.batch = 1.0
        model.spend(480.0)
    assert model.launches == before
