from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.aio.client import ApiClient, Configuration

from outrider.cluster.client import ClusterClient
from outrider.cluster.deep_json import room_for_deep_json
from outrider.cluster.errors import Unavailable
from outrider.cluster.resources import CONFIG_MAPS, MODELS, PODS, WATCHED_CHILDREN
from outrider.controller import watch
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.store import MANAGED_SELECTOR, Key, Store
from outrider.controller.watch import WATCHED, ClusterWatch
from outrider.plan.names import MODEL_LABEL
from tests.unit.api.from_schema import nested
from tests.unit.controller.factories import a_raw_model, a_raw_pod
from tests.unit.controller.watched_server import WatchedServer, a_watched_server

ERROR_500 = {"kind": "Status", "code": 500, "message": "etcd is away", "metadata": {}}


BY_LABEL: dict[str, set[str | None]] = {
    MODELS.plural: {None},
    **{resource.plural: {MANAGED_SELECTOR} for resource in (PODS, *WATCHED_CHILDREN)},
}


class Watched:
    """A subject and the server that it watches, which a test controls."""

    def __init__(self, server: WatchedServer, cluster: ClusterClient) -> None:
        self.server = server
        self.store = Store()
        self.metrics = OwnMetrics()
        self.changes: asyncio.Queue[Key] = asyncio.Queue()
        self.urgent = 0
        self.watch = ClusterWatch(
            cluster,
            self.store,
            self.changes.put_nowait,
            namespaces=(),
            metrics=self.metrics,
            urgent=self.wake,
        )

    def wake(self) -> None:
        self.urgent += 1

    async def next_change(self) -> Key:
        async with asyncio.timeout(30):
            return await self.changes.get()


@asynccontextmanager
async def a_watch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    """Not started yet."""
    monkeypatch.setattr(watch, "_RESTART_SECONDS", (0.01,))
    async with a_watched_server(folder) as (server, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        configuration = Configuration()
        configuration.host = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        cluster = ClusterClient(ApiClient(configuration))
        try:
            yield Watched(server, cluster)
        finally:
            await cluster.aclose()


@asynccontextmanager
async def watching(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    async with a_watch(folder, monkeypatch) as watched:
        task = asyncio.create_task(watched.watch.watch_forever())
        try:
            yield watched
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_an_event_reaches_the_store_and_names_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        await watched.server.until_watched(PODS, 1)
        watched.server.send(PODS, "ADDED", a_raw_pod("m-1"))

        assert await watched.next_change() == Key("default", "m")
        assert [pod.metadata.name for pod in watched.store.pods_of(Key("default", "m"))] == ["m-1"]


async def test_the_tuners_own_state_reaches_the_store_and_wakes_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        await watched.server.until_watched(CONFIG_MAPS, 1)
        watched.server.send(CONFIG_MAPS, "ADDED", a_config_map("m-tuner"))
        watched.server.send(CONFIG_MAPS, "ADDED", a_config_map("n-schedule", model="n"))

        assert await watched.next_change() == Key("default", "n")
        assert len(watched.store.children[CONFIG_MAPS]) == 2


async def test_an_order_about_the_launch_wakes_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        await watched.server.until_watched(CONFIG_MAPS, 1)
        watched.server.send(CONFIG_MAPS, "ADDED", a_config_map("m-launch"))

        assert await watched.next_change() == Key("default", "m")


def a_config_map(name: str, *, model: str = "m") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "labels": {MODEL_LABEL: model}}}


async def test_the_watches_are_of_all_models_and_of_labelled_children_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        for resource in WATCHED:
            await watched.server.until_watched(resource, 1)

        assert watched.server.selectors == BY_LABEL


async def test_a_full_read_is_of_all_models_and_of_labelled_children_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_watch(tmp_path, monkeypatch) as watched:
        await watched.watch.read_all()

        assert watched.server.selectors == BY_LABEL


async def test_a_deletion_reaches_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        await watched.server.until_watched(MODELS, 1)
        watched.server.send(MODELS, "ADDED", a_raw_model())
        await watched.next_change()
        watched.server.send(MODELS, "DELETED", a_raw_model(version=2))
        await watched.next_change()

        assert len(watched.store.models) == 0


async def test_the_watches_come_back_after_an_error_that_ends_kopf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        await watched.server.until_watched(MODELS, 1)
        watched.server.send(MODELS, "ERROR", ERROR_500)
        await watched.server.until_watched(MODELS, 2)
        watched.server.send(MODELS, "ADDED", a_raw_model())

        assert await watched.next_change() == Key("default", "m")
        assert watched.metrics.registry.get_sample_value("outrider_operator_watch_restarts_total") == 1


async def test_an_error_that_ends_kopf_spares_the_other_tasks_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        await watched.server.until_watched(MODELS, 1)
        bystander = asyncio.create_task(asyncio.Event().wait())
        watched.server.send(MODELS, "ERROR", ERROR_500)
        await watched.server.until_watched(MODELS, 2)

        assert not bystander.done()
        bystander.cancel()


async def test_what_cannot_wait_wakes_the_tuning_loop_besides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        await watched.server.until_watched(MODELS, 1)
        watched.server.send(MODELS, "ADDED", a_raw_model())
        await watched.next_change()
        assert watched.urgent == 0
        watched.server.send(MODELS, "MODIFIED", a_raw_model(version=2, generation=2))
        await watched.next_change()

        assert watched.urgent == 1


async def test_a_model_that_is_nested_without_end_neither_ends_the_watches_nor_hides_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with room_for_deep_json():
        async with watching(tmp_path, monkeypatch) as watched:
            await watched.server.until_watched(MODELS, 1)
            watched.server.send(MODELS, "ADDED", a_raw_model(podTemplate={"spec": nested(5_000)}))
            watched.server.send(MODELS, "ADDED", a_raw_model("other", uid="uid-other"))

            assert {await watched.next_change(), await watched.next_change()} == {
                Key("default", "m"),
                Key("default", "other"),
            }
            deep = watched.store.models.get(Key("default", "m"))
            assert deep is not None
            assert "nested deeper than" in str(deep.problem)
            assert watched.metrics.registry.get_sample_value("outrider_operator_watch_restarts_total") == 0


async def test_a_pod_that_cannot_be_read_does_not_hide_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        await watched.server.until_watched(PODS, 1)
        watched.server.send(PODS, "ADDED", {**a_raw_pod("odd"), "status": {"containerStatuses": "many"}})
        watched.server.send(PODS, "ADDED", a_raw_pod("m-1"))

        await watched.next_change()
        assert [pod.metadata.name for pod in watched.store.pods_of(Key("default", "m"))] == ["m-1"]


async def test_a_model_with_the_label_of_another_is_looked_at_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        await watched.server.until_watched(MODELS, 1)
        labelled = a_raw_model()
        labelled["metadata"]["labels"] = {MODEL_LABEL: "other"}
        watched.server.send(MODELS, "ADDED", labelled)

        assert await watched.next_change() == Key("default", "m")


@pytest.mark.parametrize(
    "error", [Unavailable("etcd is away"), RecursionError("too deep"), KeyError("metadata")]
)
async def test_full_reads_go_on_whatever_one_of_them_raised(error: Exception) -> None:
    class Cluster:
        """Fails once."""

        def __init__(self) -> None:
            self.fails: Exception | None = error

        async def list_all(self, *_: object, **__: object) -> tuple[list[dict[str, Any]], int]:
            if self.fails is not None:
                self.fails, raised = None, self.fails
                raise raised
            return [a_raw_model()], 7

    changes: asyncio.Queue[Key] = asyncio.Queue()
    subject = ClusterWatch(
        Cluster(),  # type: ignore[arg-type]
        Store(),
        changes.put_nowait,
        namespaces=(),
        metrics=OwnMetrics(),
    )
    reading = asyncio.create_task(subject.read_all_forever(0.001))
    async with asyncio.timeout(30):
        assert await changes.get() == Key("default", "m")
    reading.cancel()
