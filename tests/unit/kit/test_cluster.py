from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import MagicMock

import pytest

from examples.kit import cluster as kit
from examples.kit.cluster import Cluster, Place, PodCount, RunFailed
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


async def test_a_wait_that_takes_too_long_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = a_cluster(iter([a_status("Ready", "False")]), monkeypatch)
    with pytest.raises(RunFailed, match="tiny was not ready within -1 s: Ready=False Because"):
        await cluster.wait("tiny", lambda _: False, "tiny was not ready", -1.0)
