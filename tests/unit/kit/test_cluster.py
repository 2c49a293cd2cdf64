from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from examples.kit import cluster as kit
from examples.kit.cluster import Cluster, Place, PodCount, RunFailed, output
from outrider.api.status import Status
from tests.unit.kit.factories import a_status


def test_a_restarted_container_counts() -> None:
    assert PodCount({"a": 3}).restarts_since(PodCount({"a": 1})) == 2


def test_a_replaced_pod_counts() -> None:
    assert PodCount({"b": 0}).restarts_since(PodCount({"a": 0})) == 1


def a_cluster(statuses: Iterator[Status], monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """One whose model says one status after the other."""

    async def status(self: Cluster, name: str) -> Status:  # noqa: ARG001
        return next(statuses)

    monkeypatch.setattr(Cluster, "status", status)
    monkeypatch.setattr(kit, "POLL_SECONDS", 0.0)
    return Cluster(Place(None, None), MagicMock(), "default")


async def test_waiting_tells_each_new_state_of_progress_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, ready = a_status("Ready", "False"), a_status("Ready", "True")
    cluster, told = a_cluster(iter([waiting, waiting, ready]), monkeypatch), list[str]()
    await cluster.wait("tiny", lambda status: status is ready, "not ready", 10.0, told.append)
    assert told == ["Ready=False Because: "]


async def test_a_wait_that_takes_too_long_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = a_cluster(iter([a_status("Ready", "False")]), monkeypatch)
    with pytest.raises(RunFailed, match="tiny was not ready within -1 s: Ready=False Because"):
        await cluster.wait("tiny", lambda _: False, "tiny was not ready", -1.0)


async def test_a_command_that_fails_is_told_with_its_error() -> None:
    with pytest.raises(RunFailed, match=r"^sh -c .*: no such pod$"):
        await output("sh", "-c", "echo no such pod >&2; exit 1")


async def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="kubectl is not installed"):
        await output(str(tmp_path / "kubectl"))
