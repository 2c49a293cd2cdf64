from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from examples.demo import arms
from examples.demo.arms import Example, hand_over
from examples.demo.phases import Arm
from examples.kit import cluster as kit
from examples.kit.cluster import RunFailed
from outrider.api.annotations import read_instructions
from outrider.api.status import Status
from outrider.api.tuning import Actuation
from outrider_protocol.schedule import Schedule
from tests.unit.demo.factories import FakeCluster

EXAMPLE = Example.read(Path("examples/tiny-draft-model.yaml"))


def a_cluster(told: Status) -> FakeCluster:
    return FakeCluster(MagicMock(), MagicMock(), "default", told=told, there={EXAMPLE.name})


def a_status(table: str, active: str, reason: str) -> Status:
    told = [("ActuationConverged", "True", "Converged"), ("TuningActive", active, reason)]
    common = {"message": "words", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{"type": kind, "status": status, "reason": why, **common} for kind, status, why in told]
    speculation = {"state": "Active", "scheduleSummary": table}
    return Status.model_validate({"conditions": conditions, "speculation": speculation})


def overruled(table: str) -> Status:
    return a_status(table, "False", "Overridden")


def tuning(table: str) -> Status:
    return a_status(table, "True", "Tuning")


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kit, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(arms, "CONVERGE_SECONDS", 0.02)


@pytest.mark.parametrize(("arm", "k"), [(Arm.NO_DRAFTS, 0), (Arm.LONGEST_DRAFTS, 5)])
async def test_a_static_arm_overrules_the_tuner_with_one_k_for_a_while(arm: Arm, k: int) -> None:
    cluster = a_cluster(overruled(f"*:{k}"))
    await hand_over(cluster, EXAMPLE, arm)
    told = read_instructions(
        cluster.applied[-1]["metadata"]["annotations"],
        candidates=EXAMPLE.model.spec.candidates(),
        actuation=Actuation.LIVE,
    )
    assert told.refused is None
    assert told.override is not None
    assert told.override.schedule == Schedule.constant(k)
    assert timedelta(minutes=20) < told.override.until - datetime.now(UTC) <= timedelta(hours=1)


async def test_nothing_of_the_spec_differs_between_arms_so_no_pod_restarts() -> None:
    cluster = a_cluster(overruled("*:0"))
    await hand_over(cluster, EXAMPLE, Arm.NO_DRAFTS)
    assert cluster.applied[-1]["spec"] == EXAMPLE.manifest["spec"]


async def test_the_tuner_gets_the_model_back_without_annotations() -> None:
    cluster = a_cluster(tuning("*:3"))
    await hand_over(cluster, EXAMPLE, Arm.OUTRIDER)
    assert cluster.applied == [EXAMPLE.manifest]


@pytest.mark.parametrize(
    ("arm", "told"),
    [
        (Arm.OUTRIDER, overruled("*:0")),
        (Arm.NO_DRAFTS, tuning("*:0")),
        (Arm.NO_DRAFTS, overruled("*:5")),
    ],
)
async def test_an_arm_waits_until_status_confirms_it(arm: Arm, told: Status) -> None:
    with pytest.raises(RunFailed, match="the engines did not confirm"):
        await hand_over(a_cluster(told), EXAMPLE, arm)
