from __future__ import annotations

from pathlib import Path

import pytest

from examples.demo.arms import Example
from examples.demo.phases import Arm

EXAMPLE = Example.read(Path("examples/tiny-draft-model.yaml"))


def test_the_example_starts_with_the_tuner_on() -> None:
    assert EXAMPLE.model.spec.tuning_mode == "Auto"
    assert EXAMPLE.for_arm(Arm.OUTRIDER) == EXAMPLE.manifest


@pytest.mark.parametrize(("arm", "k"), [(Arm.NO_DRAFTS, 0), (Arm.LONGEST_DRAFTS, 5)])
def test_a_static_arm_holds_one_k_with_the_tuner_off(arm: Arm, k: int) -> None:
    speculation = EXAMPLE.for_arm(arm)["spec"]["speculation"]
    assert speculation["schedule"] == [{"numSpeculativeTokens": k}]
    assert speculation["tuning"]["mode"] == "Off"


@pytest.mark.parametrize("arm", Arm)
def test_arms_differ_in_nothing_that_restarts_a_pod(arm: Arm) -> None:
    def restarting(manifest: dict[str, object]) -> object:
        spec = dict(manifest["spec"])  # type: ignore[call-overload]
        spec["speculation"] = {
            key: value for key, value in spec["speculation"].items() if key not in ("schedule", "tuning")
        }
        return spec

    assert restarting(EXAMPLE.for_arm(arm)) == restarting(EXAMPLE.manifest)


def test_the_example_wants_no_gpus() -> None:
    assert not EXAMPLE.wants_gpus


def test_a_model_whose_resources_nobody_gave_wants_gpus() -> None:
    assert Example.read(Path("examples/qwen3-8b-eagle3.yaml")).wants_gpus
