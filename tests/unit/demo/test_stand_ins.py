"""The lap on a stand-in: nothing simulated is taken for real, and nothing simulated stays behind."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from unittest.mock import MagicMock

import pytest
from rich.console import Console

from examples.demo.arms import Example
from examples.demo.phases import SIMULATED_TRACE
from examples.demo.stand_ins import EXAMPLE, SimulatedLap, lap, late
from examples.demo.table import Screen
from examples.kit import cluster as kit
from examples.kit.cluster import RunFailed
from examples.kit.loads import Load
from examples.kit.options import EXAMPLE as REAL
from examples.kit.prompts import PROMPTS
from examples.kit.records import Count
from examples.kit.traffic import Traffic
from outrider.api.status import Status
from tests.unit.demo.factories import FakeCluster
from tests.unit.kit.factories import a_count

TWIN, TINY = Example.read(EXAMPLE), Example.read(REAL)


def status(*, stand_in_for: str | None = None, **conditions: str) -> Status:
    """Of conditions by their type, each True and with its reason."""
    at = "2026-01-01T00:00:00Z"
    told = [
        {"type": kind, "status": "True", "reason": reason, "message": "words", "lastTransitionTime": at}
        for kind, reason in conditions.items()
    ]
    speculation = {"state": "Active", "simulated": stand_in_for, "scheduleSummary": "*:0"}
    return Status.model_validate({"conditions": told, "speculation": speculation})


SERVING = status(Ready="EnginesReady", ActuationConverged="Converged")
SIMULATED = status(Ready="EnginesReady", ActuationConverged="Converged", stand_in_for="h100_8b")
NO_IMAGE = status(Degraded="ImagePullFailed")


class FakeTraffic(Traffic):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def hold(self, load: Load, seconds: float) -> AsyncGenerator[Count]:  # noqa: ARG002
        yield a_count(time.time(), requests=2 * PROMPTS)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kit, "POLL_SECONDS", 0.0)
    monkeypatch.setattr("examples.demo.stand_ins.READY_SECONDS", 0.05)


def a_cluster(told: Status) -> FakeCluster:
    return FakeCluster(MagicMock(), MagicMock(), "default", told=told, there={TINY.name})


def traffic(cluster: FakeCluster) -> Traffic:
    return FakeTraffic(cluster, "client", "http://tiny", "tiny", 8, 0.0)


def screen() -> Screen:
    return Screen(Console(quiet=True))


async def attempt(cluster: FakeCluster) -> SimulatedLap:
    return await lap(cluster, TINY, TWIN, traffic(cluster), 1.0, screen())


async def test_the_lap_has_every_load_and_names_what_was_simulated() -> None:
    found = await attempt(a_cluster(SIMULATED))
    assert [stretch.load for stretch in found.log.stretches] == [load.name for load in SIMULATED_TRACE]
    assert found.engine == "h100_8b"


async def test_engines_that_do_not_say_that_they_are_simulated_are_not_driven() -> None:
    with pytest.raises(RunFailed, match="did not serve and say that it is simulated"):
        await attempt(a_cluster(SERVING))


@pytest.mark.parametrize("told", [NO_IMAGE, SERVING, SIMULATED], ids=["no image", "not simulated", "well"])
async def test_the_real_model_is_back_whatever_happened(told: Status) -> None:
    cluster = a_cluster(told)
    with suppress(RunFailed):
        await attempt(cluster)
    assert cluster.there == {TINY.name}


@pytest.mark.parametrize(
    ("scheduled", "lost", "share"),
    [
        ([(0.0, 10.0), (60.0, 60.0)], [(0.0, 4.0), (60.0, 4.5)], 0.01),
        ([(0.0, 10.0), (60.0, 60.0)], [(0.0, 4.0), (60.0, 4.0)], 0.0),
        ([(0.0, 10.0)], [(0.0, 4.0)], None),
        ([(0.0, 10.0), (60.0, 10.0)], [(0.0, 4.0), (60.0, 4.0)], None),
        ([(0.0, 10.0), (60.0, 60.0)], [(0.0, 4.0), (60.0, 0.0)], None),
    ],
    ids=["late", "in time", "one sample", "no step", "began anew"],
)
def test_lateness_is_what_was_lost_during_the_lap(
    scheduled: list[tuple[float, float]], lost: list[tuple[float, float]], share: float | None
) -> None:
    assert late(scheduled, lost) == share
