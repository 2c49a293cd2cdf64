from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from examples.demo.arms import Example, converged, in_force
from examples.demo.phases import Arm
from outrider.api.conditions import Condition, ConditionStatus
from outrider.api.status import AppliedRow, SpeculationState, SpeculationStatus, Status

EXAMPLE = Example.read(Path("examples/tiny-draft-model.yaml"))


def a_status(*, generation: int | None = 3, status: ConditionStatus = ConditionStatus.TRUE) -> Status:
    condition = Condition(
        type="ActuationConverged",
        status=status,
        reason="Converged",
        observed_generation=generation,
        last_transition_time=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return Status(conditions=[condition])


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


def test_a_confirmation_of_this_generation_counts() -> None:
    assert converged(a_status(generation=3), generation=3)


def test_a_confirmation_of_an_older_generation_does_not_count() -> None:
    assert not converged(a_status(generation=2), generation=3)


def test_a_pod_that_refused_is_not_converged() -> None:
    assert not converged(a_status(status=ConditionStatus.FALSE), generation=3)


def test_the_table_in_force_has_as_few_rows_as_possible() -> None:
    rows = [
        AppliedRow(max_batch_size=8, num_speculative_tokens=0),
        AppliedRow(max_batch_size=16, num_speculative_tokens=0),
        AppliedRow(num_speculative_tokens=0),
    ]
    status = Status(speculation=SpeculationStatus(state=SpeculationState.SOFT_OFF, schedule=rows))
    assert in_force(status) == "*:0"
