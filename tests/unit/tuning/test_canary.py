"""A canary on simulated engines under loads that move between pods: does it end with a figure, and which?"""

from __future__ import annotations

import pytest

from outrider.api.resource import SpeculativeModel
from outrider.tuning.policy import Policy, Relaunch
from tests.bench import relaunch, tax
from tests.bench.canary import CANDIDATES, canary

LIMITS: Relaunch = Policy(CANDIDATES, 64).relaunch


@pytest.mark.parametrize("given", [0.03, 0.10])
def test_a_canary_ends_with_the_tax_before_its_time_is_up(given: float) -> None:
    found = canary(given, seed=0)
    assert found.tax is not None
    assert found.tax == pytest.approx(given, abs=LIMITS.canary_deviation)
    assert found.seconds < LIMITS.canary_seconds / 2


def test_the_bench_gives_its_engines_the_tax_that_it_asks_for() -> None:
    manifest = tax.manifest("h100_8b", 0.07)
    (container,) = manifest["spec"]["podTemplate"]["spec"]["containers"]
    told = next(one["value"] for one in container["env"] if one["name"] == "OUTRIDER_TWIN")
    assert '"idle_tax": 0.07' in told
    assert SpeculativeModel.model_validate(manifest).spec.replicas == 2


@pytest.mark.parametrize("scene", relaunch.Scene)
def test_every_scene_of_relaunches_is_a_model_that_is_admitted(scene: relaunch.Scene) -> None:
    SpeculativeModel.model_validate(relaunch.manifest(scene))
