"""One model's launch: when it is the tuner's business at all, and which pods are launched as ordered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outrider.api.launch import Launch, RelaunchPolicy
from outrider.api.reasons import TuningReason
from outrider.api.tuning import Actuation, StructuralOff, TuningMode
from outrider.controller.fleet import EnginePod, TunedModel
from outrider.controller.tune.launching import LaunchTuner, runs
from outrider.controller.tune.permission import Permission
from outrider.engine.client import EngineAddress
from outrider.engine.signing import SigningKey
from outrider.tuning.relaunch.state import RelaunchState
from outrider_protocol.schedule import Schedule
from tests.unit.tuning_loop.factories import NOW, World, a_model

TABLE = Schedule.parse("12:1,*:3")
BARE = Launch(drafter=False)
TUNES = Permission(TuningReason.TUNING, "")


def a_pod(launch: Launch) -> EnginePod:
    return EnginePod("a", EngineAddress("http://a", "uid-a", SigningKey.generate()), launch=launch)


def of(actuation: Actuation) -> TunedModel:
    return replace(a_model(), relaunching=RelaunchPolicy(actuation=actuation))


async def judged(mode: TuningMode) -> bool:
    """Whether a tick judges the launch where the spec lets the tuner change it."""
    model = replace(a_model(mode=mode), relaunching=RelaunchPolicy(structural_off=StructuralOff.ALLOW))
    tuner = LaunchTuner(World([model]), RelaunchState(), timeout_seconds=60)
    return await tuner.tick(model, model.policy, None, TUNES, NOW) is not None


@pytest.mark.parametrize("mode", [TuningMode.AUTO, TuningMode.OBSERVE])
async def test_the_launch_is_judged_in_the_modes_that_decide(mode: TuningMode) -> None:
    assert await judged(mode)


async def test_with_tuning_off_the_launch_is_none_of_the_tuners_business() -> None:
    assert not await judged(TuningMode.OFF)


def test_under_rollout_a_pod_with_another_table_is_not_launched_as_ordered() -> None:
    model = of(Actuation.ROLLOUT)
    assert runs(a_pod(Launch(schedule=TABLE)), Launch(schedule=TABLE), model)
    assert not runs(a_pod(Launch(schedule=TABLE)), Launch(), model)


def test_where_tables_are_pushed_it_does_not_matter_with_which_one_a_pod_was_launched() -> None:
    assert runs(a_pod(Launch(schedule=TABLE)), Launch(), of(Actuation.LIVE))


@pytest.mark.parametrize("actuation", Actuation)
def test_a_pod_without_a_drafter_is_not_launched_as_one_with_it(actuation: Actuation) -> None:
    assert runs(a_pod(BARE), BARE, of(actuation))
    assert not runs(a_pod(BARE), Launch(), of(actuation))
    assert not runs(a_pod(Launch()), BARE, of(actuation))
