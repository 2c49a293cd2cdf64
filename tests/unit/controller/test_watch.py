from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import kopf
import pytest
import yaml
from kubernetes.aio.client import ApiClient, Configuration

from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError, NotFound, Refused, Unavailable
from outrider.cluster.objects import Metadata
from outrider.cluster.resources import CONFIG_MAPS, MODELS, PODS, WATCHED_CHILDREN, Resource
from outrider.controller import kopf_operator, watch
from outrider.controller.kopf_operator import run_in_thread
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.process import room_for_deep_json
from outrider.controller.store import Store
from outrider.controller.stored import MANAGED_SELECTOR, Key, StoredModel, StoredPod
from outrider.controller.watch import WATCHED, ClusterWatch, Receive, cannot_wait
from outrider.plan.names import MODEL_LABEL
from tests.unit.api.from_schema import nested
from tests.unit.controller.cluster_server import until
from tests.unit.controller.factories import a_raw_model, a_raw_pod
from tests.unit.controller.watched_server import WatchedServer, a_watched_server

WATCHES = partial(run_in_thread, namespaces=())
ERROR_500 = {"kind": "Status", "code": 500, "message": "etcd is away", "metadata": {}}


BY_LABEL: dict[str, set[str | None]] = {
    MODELS.plural: {None},
    **{resource.plural: {MANAGED_SELECTOR} for resource in (PODS, *WATCHED_CHILDREN)},
}


class Watched:
    """A subject and the server that it watches, which a test controls."""

    def __init__(self, server: WatchedServer, cluster: ClusterClient, namespaces: tuple[str, ...]) -> None:
        self.server = server
        self.store = Store()
        self.metrics = OwnMetrics()
        self.changes: asyncio.Queue[Key] = asyncio.Queue()
        self.urgent: list[Key] = []
        self.watch = ClusterWatch(
            cluster,
            self.store,
            self.changes.put_nowait,
            namespaces=namespaces,
            metrics=self.metrics,
            urgent=self.wake,
            missed_seconds=0.01,
        )

    def knows(self, *models: str) -> None:
        for name in models:
            self.store.models.put(a_raw_model(name, uid=f"uid-{name}"))

    def wake(self, key: Key) -> None:
        self.urgent.append(key)

    async def next_change(self) -> Key:
        async with asyncio.timeout(30):
            return await self.changes.get()


@asynccontextmanager
async def a_watch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, namespaces: tuple[str, ...] = ()
) -> AsyncIterator[Watched]:
    """Not started yet."""
    async with a_watched_server(folder) as (server, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        configuration = Configuration()
        configuration.host = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        cluster = ClusterClient(ApiClient(configuration))
        try:
            yield Watched(server, cluster, namespaces)
        finally:
            await cluster.aclose()


@asynccontextmanager
async def watching(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    async with a_watch(folder, monkeypatch) as watched:
        task = asyncio.create_task(watched.watch.watch_forever(WATCHES, restart_seconds=(0.01,)))
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
        watched.knows("m", "n")
        await watched.server.until_watched(PODS, 1)
        watched.server.send(PODS, "ADDED", a_raw_pod("m-1"))

        assert await watched.next_change() == Key("default", "m")
        assert [pod.metadata.name for pod in watched.store.pods_of(Key("default", "m"))] == ["m-1"]


async def test_the_tuners_own_state_reaches_the_store_and_wakes_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        watched.knows("m", "n")
        await watched.server.until_watched(CONFIG_MAPS, 1)
        watched.server.send(CONFIG_MAPS, "ADDED", a_config_map("m-tuner"))
        watched.server.send(CONFIG_MAPS, "ADDED", a_config_map("n-schedule", model="n"))

        assert await watched.next_change() == Key("default", "n")
        assert len(watched.store.children[CONFIG_MAPS]) == 2


async def test_an_order_about_the_launch_wakes_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        watched.knows("m", "n")
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


async def test_what_no_model_owns_is_left_out_and_read_once_its_model_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        for resource in WATCHED:
            await watched.server.until_watched(resource, 1)
        reading = asyncio.create_task(watched.watch.read_all_forever(3600))
        watched.server.send(PODS, "ADDED", a_raw_pod("m-1"))
        await until(lambda: watched.store.was_missed(Key("default", "m")))
        assert len(watched.store.pods) == 0
        watched.server.listed[PODS.plural] = [a_raw_pod("m-1")]
        watched.server.listed[MODELS.plural] = [a_raw_model()]
        watched.server.send(MODELS, "ADDED", a_raw_model())
        await until(lambda: len(watched.store.pods) == 1)
        reading.cancel()


async def test_a_full_read_leaves_out_what_no_model_owns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_watch(tmp_path, monkeypatch) as watched:
        watched.server.listed[MODELS.plural] = [a_raw_model()]
        watched.server.listed[PODS.plural] = [a_raw_pod("m-1"), a_raw_pod("n-1", model="n")]
        await watched.watch.read_all()

        assert [pod.metadata.name for pod in watched.store.pods] == ["m-1"]
        assert watched.store.was_missed(Key("default", "n"))


async def test_a_full_read_after_a_restored_backup_replaces_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_watch(tmp_path, monkeypatch) as watched:
        watched.server.listed[MODELS.plural] = [a_raw_model(version=80, replicas=3), a_raw_model("n")]
        watched.server.version = 90
        await watched.watch.read_all()
        watched.server.listed[MODELS.plural] = [a_raw_model(version=40, replicas=1)]
        watched.server.version = 50
        await watched.watch.read_all()

        [stored] = watched.store.models
        assert stored.model is not None
        assert stored.model.spec.replicas == 1
        assert "resource versions went back from 90 to 50" in caplog.text


async def test_a_model_that_is_deleted_while_it_is_listed_does_not_come_back() -> None:
    watches: list[Receive] = []
    listing, deleted = asyncio.Event(), asyncio.Event()

    class Slow(Models):
        """The list of models ends after the deletion."""

        async def list_through(self, resource: Resource, *more: Any, **labels: Any) -> Any:
            listed = await super().list_through(resource, *more, **labels)
            if resource == MODELS:
                listing.set()
                await deleted.wait()
            return listed

    async def attach(receive: Receive) -> None:
        watches.append(receive)
        await asyncio.Event().wait()

    changes: asyncio.Queue[Key] = asyncio.Queue()
    subject = a_subject(cluster=Slow(), changed=changes.put_nowait)
    watching = asyncio.create_task(subject.watch_forever(attach))
    reading = asyncio.create_task(subject.read_all())
    await listing.wait()
    await until(lambda: watches)
    watches[0](MODELS, "DELETED", a_raw_model(version=8))
    assert await changes.get() == Key("default", "m")
    deleted.set()
    await reading
    watching.cancel()

    assert len(subject._store.models) == 0
    assert changes.empty()


async def test_kopf_keeps_no_more_of_an_object_than_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[dict[str, Any]] = []
    read = StoredModel.read

    def remember(raw: dict[str, Any], before: StoredModel | None, metadata: Metadata) -> StoredModel:
        taken.append(raw)
        return read(raw, before, metadata)

    async with watching(tmp_path, monkeypatch) as watched:
        watched.store.models._parse = remember  # type: ignore[assignment]
        await watched.server.until_watched(MODELS, 1)
        watched.server.send(MODELS, "ADDED", a_raw_model())
        await watched.next_change()
        assert [set(raw) for raw in taken] == [{"apiVersion", "kind", "metadata"}]


def shown_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the operator's log has: of kopf's own lines errors alone."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("resource", watch.WATCHED, ids=lambda resource: resource.plural)
async def test_without_the_right_to_watch_the_log_says_which(
    resource: Resource,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaint = f'cannot watch resource "{resource.plural}"'
    async with a_watch(tmp_path, monkeypatch) as watched:
        watched.server.denied = resource.plural
        task = asyncio.create_task(watched.watch.watch_forever(WATCHES, restart_seconds=(0.01,)))
        try:
            async with asyncio.timeout(20):
                while not any(complaint in line for line in shown_lines(caplog)):
                    await asyncio.sleep(0.05)
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_an_error_that_ends_kopf_spares_the_other_tasks_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        await watched.server.until_watched(MODELS, 1)
        other_task = asyncio.create_task(asyncio.Event().wait())
        watched.server.send(MODELS, "ERROR", ERROR_500)
        await watched.server.until_watched(MODELS, 2)

        assert not other_task.done()
        other_task.cancel()


async def test_what_cannot_wait_wakes_the_tuning_loop_besides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, monkeypatch) as watched:
        await watched.server.until_watched(MODELS, 1)
        watched.server.send(MODELS, "ADDED", a_raw_model())
        await watched.next_change()
        assert watched.urgent == []
        watched.server.send(MODELS, "MODIFIED", a_raw_model(version=2, generation=2))
        await watched.next_change()

        assert watched.urgent == [Key("default", "m")]


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
        watched.knows("m", "n")
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
async def test_full_reads_go_on_whatever_one_of_them_raised_and_the_log_says_so(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    class Cluster:
        """Fails once."""

        def __init__(self) -> None:
            self.fails: Exception | None = error

        async def list_through(
            self, resource: Resource, _: object, keep: Callable[[object], object], **__: object
        ) -> tuple[list[object], int]:
            if self.fails is not None:
                raised, self.fails = self.fails, None
                raise raised
            return [keep(a_raw_model())] if resource == MODELS else [], 7

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
    assert f"the full read failed, the watches continue: {type(error).__name__}" in caplog.text


class Models:
    """A cluster with one model that never changes. reads: of all models."""

    def __init__(self) -> None:
        self.reads = 0

    async def list_through(
        self, resource: Resource, _: object, keep: Callable[[object], object], **__: object
    ) -> tuple[list[object], int]:
        self.reads += resource == MODELS
        return [keep(a_raw_model())] if resource == MODELS else [], 7


def a_subject(
    kind: type[ClusterWatch] = ClusterWatch,
    *,
    cluster: object = None,
    changed: Callable[[Key], None] = lambda _: None,
    namespaces: tuple[str, ...] = (),
) -> ClusterWatch:
    return kind(
        cluster or Models(),  # type: ignore[arg-type]
        Store(),
        changed,
        namespaces=namespaces,
        metrics=OwnMetrics(),
    )


async def test_with_each_full_read_every_model_is_looked_at_though_nothing_differed() -> None:
    changes: asyncio.Queue[Key] = asyncio.Queue()
    subject = a_subject(changed=changes.put_nowait)
    reading = asyncio.create_task(subject.read_all_forever(0.001))
    async with asyncio.timeout(30):
        for _ in range(3):
            assert await changes.get() == Key("default", "m")
    reading.cancel()


@dataclass
class Clock:
    """Stands in for asyncio in the watch: pauses take no time and are noted, and so do the watches.

    lasts: seconds for which the watches last, one after the other; then they continue.
    """

    lasts: list[float]
    pauses: list[float] = field(default_factory=list)
    Event = asyncio.Event
    now: float = 0.0

    def get_running_loop(self) -> Clock:
        return self

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


async def test_pauses_between_watches_grow_with_failures_in_a_row_and_begin_anew_once_they_lasted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, running = Clock([0.0] * 6 + [61.0, 60.0]), asyncio.Event()

    async def watches(_: Receive) -> None:
        if clock.lasts:
            clock.now += clock.lasts.pop(0)
            return
        running.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(watch, "asyncio", clock)
    task = asyncio.create_task(a_subject().watch_forever(watches))
    async with asyncio.timeout(30):
        await running.wait()
    task.cancel()
    await asyncio.wait([task])

    assert clock.pauses == [1, 2, 5, 10, 30, 30, 1, 2]
    assert "watches ended after 61 s, restart in 1 s" in caplog.text


async def test_after_a_restart_of_the_watches_everything_is_read() -> None:
    cluster, starts = Models(), list[bool]()

    async def end_once(_: Receive) -> None:
        starts.append(True)
        if len(starts) > 1:
            await asyncio.Event().wait()

    subject = a_subject(cluster=cluster)
    tasks = [
        asyncio.create_task(subject.read_all_forever(3600)),
        asyncio.create_task(subject.watch_forever(end_once, restart_seconds=(0.0,))),
    ]
    await until(lambda: cluster.reads)
    for task in tasks:
        task.cancel()


class Namespaces:
    """A cluster with a model in each namespace.

    errors: raised for the lists of a namespace. only: the kind whose lists fail; None for every kind.
    """

    def __init__(self, **errors: ClusterError) -> None:
        self.errors = errors
        self.only: Resource | None = None

    async def list_through(
        self, resource: Resource, namespace: str, keep: Callable[[object], object], **__: object
    ) -> tuple[list[object], int]:
        if namespace in self.errors and self.only in (None, resource):
            raise self.errors[namespace]
        return [keep(a_raw_model(namespace=namespace))] if resource == MODELS else [], 7


@pytest.mark.parametrize("error", [Refused("forbidden"), NotFound("no such namespace")])
async def test_a_namespace_that_is_refused_hides_no_other(error: ClusterError) -> None:
    changes: list[Key] = []
    subject = a_subject(cluster=Namespaces(b=error), changed=changes.append, namespaces=("a", "b", "c"))

    await subject.read_all()

    assert set(changes) == {Key("a", "m"), Key("c", "m")}
    assert [subject.has_read(namespace) for namespace in ("a", "b", "c")] == [True, False, True]


async def test_what_is_known_of_a_namespace_stays_while_it_is_refused() -> None:
    cluster = Namespaces()
    subject = a_subject(cluster=cluster, namespaces=("a", "b"))
    await subject.read_all()

    cluster.errors["b"] = Refused("forbidden")
    await subject.read_all()

    assert subject._store.models.get(Key("b", "m")) is not None
    assert subject.has_read("b")


async def test_the_models_of_a_namespace_are_queued_once_all_its_objects_could_be_read() -> None:
    changes: list[Key] = []
    cluster = Namespaces(b=Refused("forbidden"))
    cluster.only = PODS
    subject = a_subject(cluster=cluster, changed=changes.append, namespaces=("a", "b"))
    await subject.read_all()
    assert not subject.has_read("b")

    changes.clear()
    cluster.errors.clear()
    await subject.read_all()

    assert subject.has_read("b")
    assert changes == [Key("b", "m")]


async def test_a_refused_namespace_is_told_of_once_until_it_can_be_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "outrider")
    cluster = Namespaces(b=Refused("forbidden"))
    subject = a_subject(cluster=cluster, namespaces=("a", "b"))
    await subject.read_all()
    await subject.read_all()
    [told] = caplog.messages
    assert told.startswith("Outrider skips namespace b, because the API server does not let it list")
    assert "take the namespace out of watchNamespaces" in told

    caplog.clear()
    error = cluster.errors.pop("b")
    await subject.read_all()
    cluster.errors["b"] = error
    await subject.read_all()
    assert caplog.messages == ["Outrider reads namespace b again", told]


@pytest.mark.parametrize("namespaces", [("b",), ("b", "c")])
async def test_a_full_read_fails_when_every_namespace_is_refused(namespaces: tuple[str, ...]) -> None:
    cluster = Namespaces(b=Refused("forbidden"), c=Refused("forbidden"))

    with pytest.raises(Refused):
        await a_subject(cluster=cluster, namespaces=namespaces).read_all()


async def test_a_full_read_fails_when_the_api_server_is_away_for_one_namespace() -> None:
    with pytest.raises(Unavailable):
        await a_subject(cluster=Namespaces(b=Unavailable("away")), namespaces=("a", "b")).read_all()


async def test_the_watch_of_a_refused_namespace_disturbs_no_other_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_watch(tmp_path, monkeypatch, namespaces=("a", "b")) as watched:
        watched.server.closed = "b"
        watches = partial(run_in_thread, namespaces=("a", "b"))
        tasks = [
            asyncio.create_task(watched.watch.watch_forever(watches)),
            asyncio.create_task(watched.watch.read_all_forever(3600)),
        ]
        await watched.server.until_watched(MODELS, 1)
        watched.server.send(MODELS, "ADDED", a_raw_model(namespace="a"))
        assert await watched.next_change() == Key("a", "m")

        watched.server.closed = None
        await watched.server.until_watched(MODELS, 2)
        watched.server.send(MODELS, "ADDED", a_raw_model(namespace="b", uid="uid-b"))
        await until(lambda: watched.store.models.get(Key("b", "m")))
        await until(lambda: watched.watch.has_read("b"))
        assert watched.metrics.registry.get_sample_value("outrider_operator_watch_restarts_total") == 0
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@pytest.mark.parametrize(
    ("namespaces", "scope"), [((), {"clusterwide": True}), (("x", "y"), {"namespaces": ("x", "y")})]
)
async def test_kopf_watches_these_namespaces_on_a_thread_that_keeps_no_process_alive(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    namespaces: tuple[str, ...],
    scope: dict[str, object],
) -> None:
    asked: list[dict[str, Any]] = []
    daemons: list[bool] = []

    async def spawn(**arguments: Any) -> None:
        asked.append(arguments)
        daemons.append(threading.current_thread().daemon)
        raise RuntimeError("enough")

    monkeypatch.setattr(kopf, "spawn_tasks", spawn)
    await run_in_thread(lambda *_: None, namespaces=namespaces)
    # The thread of kopf logs its error when its successor may have started already.
    await until(lambda: "watches failed: RuntimeError: enough" in caplog.text)

    [arguments] = asked
    assert {
        name: value for name, value in arguments.items() if name in ("clusterwide", "namespaces")
    } == scope
    assert arguments["standalone"]
    assert arguments["stop_flag"].is_set()
    assert daemons == [True]


async def test_the_end_of_kopf_ends_the_thread_that_it_logged_in_on(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[threading.Thread] = []

    async def spawn(*, settings: kopf.OperatorSettings, **_: Any) -> None:
        used.append(settings.execution.executor.submit(threading.current_thread).result())
        raise RuntimeError("enough")

    monkeypatch.setattr(kopf, "spawn_tasks", spawn)
    await run_in_thread(lambda *_: None, namespaces=())

    [thread] = used
    await until(lambda: not thread.is_alive())


def test_kopf_writes_nothing_and_ends_no_process() -> None:
    settings = kopf.OperatorSettings()
    kopf_operator.configure(settings)  # type: ignore[call-arg]

    assert (settings.posting.enabled, settings.scanning.disabled) == (False, True)
    assert settings.process.ultimate_exiting_timeout is None
    assert settings.peering.standalone


def a_stored_model(version: int = 1, **metadata: Any) -> StoredModel:
    raw = a_raw_model(version=version)
    return StoredModel.read({**raw, "metadata": {**raw["metadata"], **metadata}})


def a_stored_pod(*, ready: bool) -> StoredPod:
    return StoredPod.read(a_raw_pod(ready=ready))


def test_an_annotation_cannot_wait() -> None:
    assert cannot_wait(a_stored_model(), a_stored_model(2, annotations={"outrider.dev/paused": "true"}))


def test_a_new_spec_cannot_wait() -> None:
    assert cannot_wait(a_stored_model(generation=1), a_stored_model(2, generation=2))


def test_a_written_status_can_wait() -> None:
    assert not cannot_wait(a_stored_model(1), a_stored_model(2))


def test_a_pod_that_comes_up_cannot_wait() -> None:
    assert cannot_wait(a_stored_pod(ready=False), a_stored_pod(ready=True))
    assert cannot_wait(None, a_stored_pod(ready=True))


def test_a_pod_that_stays_up_or_goes_down_can_wait() -> None:
    assert not cannot_wait(a_stored_pod(ready=True), a_stored_pod(ready=True))
    assert not cannot_wait(a_stored_pod(ready=True), a_stored_pod(ready=False))


def test_a_model_that_is_new_can_wait() -> None:
    assert not cannot_wait(None, a_stored_model())
