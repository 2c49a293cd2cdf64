"""One reign: what comes first, what wakes the tuning loop, and what happens when it fails."""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from opentelemetry.trace import StatusCode

from outrider.cluster.client import ClusterClient
from outrider.cluster.lease import Sole
from outrider.cluster.resources import DEPLOYMENTS, EVENTS, MODELS, PODS, SECRETS
from outrider.controller import leader
from outrider.controller.leader import Leader, LeaderLimits
from outrider.controller.other_installations import Installations
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.reconcile.reconciler import Reconciler
from outrider.controller.settings import Settings
from outrider.controller.stored import Key
from outrider.controller.traces import Traces
from outrider.controller.watch import ClusterWatch
from outrider.engine.signing import SigningKey
from outrider.plan.names import PRIVATE_KEY, control_secret
from outrider.transport import PodHttp
from tests.spellings import places
from tests.unit.controller.cluster_server import ClusterServer, a_cluster_server, a_connection, until
from tests.unit.controller.factories import a_raw_model, a_raw_pod
from tests.unit.controller.fake_loop import FakeLoop, a_kind_of_loop
from tests.unit.controller.full_metrics import POLICY, a_decision
from tests.unit.controller.spans import Spans
from tests.unit.engine.fake_engine import KEY, FakeEngine, serving


class QuietWatch(ClusterWatch):
    """Full reads work; it reports changes when a test calls ``urgent``."""

    urgent: Callable[[Key], None]
    periods: list[float]
    """Of full reads, in seconds."""

    def __init__(self, *arguments: Any, urgent: Callable[[Key], None], **more: Any) -> None:
        super().__init__(*arguments, urgent=urgent, **more)
        type(self).urgent = staticmethod(urgent)
        type(self).periods = []

    async def watch_forever(self, *_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async def read_all_forever(self, period_seconds: float) -> None:
        self.periods.append(period_seconds)
        await super().read_all_forever(period_seconds)


@dataclass
class Neighbour(Installations):
    """Manages everything as long as it ``rules``.

    seen: the first look can end. asked: number of questions whether it manages a namespace.
    """

    rules: bool = False
    asked: int = 0
    seen: asyncio.Event = field(default_factory=asyncio.Event)
    changed: Callable[[], None] = lambda: None

    def manages(self, _: Key) -> bool:
        self.asked += 1
        return not self.rules

    async def first_look(self) -> None:
        await self.seen.wait()

    async def look_forever(self, changed: Callable[[], None], /) -> None:
        self.changed = changed
        await asyncio.Event().wait()


@dataclass
class Reign:
    leader: Leader
    metrics: OwnMetrics
    loops: type[FakeLoop]

    def value(self, metric: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"outrider_operator_{metric}")

    def of_model(self, metric: str) -> float | None:
        labels = {"model_namespace": "default", "model": "m"}
        return self.metrics.registry.get_sample_value(f"outrider_model_{metric}", labels)

    @property
    def conditions(self) -> list[str]:
        """Those that are shown."""
        found = (each for each in self.metrics.registry.collect() if each.name == "outrider_model_condition")
        return [sample.labels["type"] for family in found for sample in family.samples]


@pytest.fixture(autouse=True)
def loops(monkeypatch: pytest.MonkeyPatch) -> type[FakeLoop]:
    kind = a_kind_of_loop()
    monkeypatch.setattr(leader, "TuningLoop", kind)
    monkeypatch.setattr(leader, "ClusterWatch", QuietWatch)
    return kind


async def _no_events(_: object) -> None:
    await asyncio.Event().wait()


@asynccontextmanager
async def a_reign(
    server: ClusterServer,
    loops: type[FakeLoop],
    neighbours: Installations | None = None,
    settings: Settings | None = None,
    traces: Traces | None = None,
    **seconds: float,
) -> AsyncIterator[Reign]:
    async with a_connection(server) as api:
        metrics = OwnMetrics()
        subject = Leader(
            settings or Settings(),
            ClusterClient(api),
            metrics,
            others=neighbours or Installations(),
            leadership=Sole(started_at=7),
            traces=traces or Traces(),
            limits=LeaderLimits(**{"pause_seconds": 0.0, **seconds}),
        )
        task = asyncio.create_task(subject.lead(_no_events))
        try:
            yield Reign(subject, metrics, loops)
        finally:
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def a_server() -> AsyncIterator[ClusterServer]:
    async with a_cluster_server() as server:
        server.add(MODELS, a_raw_model())
        yield server


@contextmanager
def nobody_may_list_pods(server: ClusterServer) -> Iterator[None]:
    server.refuse = lambda asked: 403 if asked.path == PODS.path(None) else None
    yield
    server.heal()


async def test_nothing_is_reconciled_or_tuned_before_everything_was_read(
    loops: type[FakeLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "backoff_seconds", lambda _: 0.01)
    async with a_server() as server:
        with nobody_may_list_pods(server):
            async with a_reign(server, loops) as reign:
                await until(lambda: server.asked.count(f"GET {PODS.path(None)}") >= 3)
                assert (server.writes, loops.made, reign.leader.has_view) == ([], [], False)

                server.heal()
                await until(lambda: loops.made and loops.made[0].models == ["m"])
                assert reign.leader.has_view


def a_secret_with(key: SigningKey) -> dict[str, Any]:
    reference = {"apiVersion": "outrider.dev/v1alpha1", "kind": "SpeculativeModel", "name": "m"}
    owner = {**reference, "uid": "uid-m", "controller": True}
    name = control_secret("m")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default", "uid": "uid-s", "ownerReferences": [owner]},
        "data": {PRIVATE_KEY: base64.b64encode(key.private_pem.encode()).decode()},
    }


async def test_engines_keep_what_they_hold_before_anything_is_reconciled(
    loops: type[FakeLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    reconciled: list[int] = []

    async def reconcile(*_: object) -> float | None:
        reconciled.append(engine.puts)
        return None

    monkeypatch.setattr(Reconciler, "reconcile", reconcile)
    engine = FakeEngine(source="Pushed", term=6)
    status = {"speculation": {"state": "Active", "schedule": [{"numSpeculativeTokens": 5}]}}
    async with serving(engine) as engines, a_server() as server:
        pod = a_raw_pod("m-1", uid=engine.pod_uid, ip="127.0.0.1", ready=True)
        pod["spec"]["containers"][0]["ports"][0]["containerPort"] = urlsplit(engines[0].address.url).port
        server.add(PODS, pod)
        server.add(MODELS, a_raw_model(status=status, version=2))
        server.add(SECRETS, a_secret_with(KEY))
        async with a_reign(server, loops):
            await until(lambda: reconciled)
    assert (engine.schedule, engine.term) == ([{"numSpeculativeTokens": 5}], 7)
    assert reconciled[0] == 1


async def test_the_pull_secrets_of_the_setting_are_those_of_the_engine_pods(loops: type[FakeLoop]) -> None:
    settings = Settings(engine_image_pull_secrets=("registry",))
    async with a_server() as server, a_reign(server, loops, settings=settings):
        await until(lambda: server.find(DEPLOYMENTS, "m"))
        deployment = server.find(DEPLOYMENTS, "m")
    assert deployment is not None
    assert deployment["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "registry"}]


async def test_the_first_read_is_repeated_at_growing_distances_and_the_log_says_why(
    loops: type[FakeLoop], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[int] = []
    times: list[float] = []

    def backoff(failed: int) -> float:
        failures.append(failed)
        times.append(time.monotonic())
        return 0.05 * failed

    monkeypatch.setattr(leader, "backoff_seconds", backoff)
    async with a_server() as server:
        with nobody_may_list_pods(server):
            async with a_reign(server, loops):
                await until(lambda: len(failures) >= 3)

    assert failures[:3] == [1, 2, 3]
    assert times[1] - times[0] >= 0.05
    assert times[2] - times[1] >= 0.1
    assert "first read failed, next attempt in 0.1 s" in caplog.text


async def test_models_are_reconciled_beside_a_namespace_that_is_refused_and_there_once_it_is_read(
    loops: type[FakeLoop],
) -> None:
    # Of b, only the models can be read. A reconcile would take its pods for missing.
    def refuse(asked: web.Request) -> int | None:
        return 403 if asked.method == "GET" and asked.path == PODS.path("b") else None

    settings = Settings(watch_namespaces=("a", "b")).model_copy(update={"resync_seconds": 0.05})
    async with a_cluster_server() as server:
        server.add(MODELS, a_raw_model(namespace="a"))
        server.add(MODELS, a_raw_model(namespace="b", uid="uid-b"))
        server.refuse = refuse
        async with a_reign(server, loops, settings=settings) as reign:
            await until(lambda: (server.find(MODELS, "m", "a") or {})["status"].get("conditions"))
            assert reign.leader.has_view
            assert not [write for write in server.writes if "/namespaces/b/" in write]

            server.heal()
            await until(lambda: server.find(DEPLOYMENTS, "m", "b"))


async def test_everything_is_read_again_in_the_period_of_the_settings(loops: type[FakeLoop]) -> None:
    async with a_server() as server, a_reign(server, loops):
        await until(lambda: QuietWatch.periods)

    assert QuietWatch.periods == [Settings().resync_seconds]


async def test_models_that_still_wait_when_a_reign_ends_are_no_longer_counted(
    loops: type[FakeLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never_ends(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Reconciler, "reconcile", never_ends)
    one_at_a_time = Settings(reconcile_concurrency=1)
    async with a_server() as server:
        server.add(MODELS, a_raw_model("n", uid="uid-n"))
        async with a_reign(server, loops, settings=one_at_a_time) as reign:
            await until(lambda: reign.value("queue_depth") == 1)
        assert reign.value("queue_depth") == 0


async def test_models_whose_passes_hang_leave_slots_to_other_namespaces(
    loops: type[FakeLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Key] = []

    async def hangs_in_one_namespace(_: object, key: Key) -> None:
        begun.append(key)
        if key.namespace == "hangs":
            await asyncio.Event().wait()

    monkeypatch.setattr(Reconciler, "reconcile", hangs_in_one_namespace)
    async with a_cluster_server() as server:
        for name in "abcd":
            server.add(MODELS, a_raw_model(name, namespace="hangs", uid=f"uid-{name}"))
        server.add(MODELS, a_raw_model())
        async with a_reign(server, loops, settings=Settings(reconcile_concurrency=2)):
            await until(lambda: Key("default", "m") in begun)
    assert [key.namespace for key in begun].count("hangs") == 1


async def test_models_that_wait_for_a_pass_are_counted_as_long_as_the_reign_lasts(
    loops: type[FakeLoop],
) -> None:
    neighbour = Neighbour()
    neighbour.seen.set()
    async with a_server() as server:
        async with a_reign(server, loops, neighbour) as reign:
            await until(lambda: "Ready" in server.conditions("m") and reign.value("queue_depth") == 0)
            neighbour.changed()
            assert reign.value("queue_depth") == 1

            # The cut takes effect with the next event.
            neighbour.changed()
        assert reign.value("queue_depth") == 0


async def test_a_change_that_a_write_brings_back_is_reconciled_and_wakes_the_tuning_loop(
    loops: type[FakeLoop],
) -> None:
    neighbour = Neighbour()
    async with a_server() as server, a_reign(server, loops, neighbour) as reign:
        await until(lambda: reign.leader.has_view)
        # No watch reports it.
        server.add(MODELS, a_raw_model(generation=2))
        neighbour.seen.set()
        await until(lambda: server.conditions("m").get("Ready", {}).get("observedGeneration") == 2)

        assert loops.made[0].looked == [Key("default", "m")]


async def test_the_connections_to_engines_outlive_a_failed_loop_and_end_with_the_leader(
    loops: type[FakeLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[PodHttp] = []

    class Connections(PodHttp):
        async def aclose(self) -> None:
            closed.append(self)
            await super().aclose()

    monkeypatch.setattr(leader, "PodHttp", Connections)
    loops.fails.append(RuntimeError("a defect"))
    async with a_server() as server:
        async with a_reign(server, loops, restart_seconds=0.05):
            await until(lambda: len(loops.made) == 2)
            assert not closed

        assert len(closed) == 1


async def test_nothing_is_reconciled_or_tuned_before_other_operators_were_looked_for(
    loops: type[FakeLoop],
) -> None:
    neighbour = Neighbour()
    async with a_server() as server, a_reign(server, loops, neighbour) as reign:
        await until(lambda: reign.leader.has_view)
        assert (server.writes, loops.made) == ([], [])

        neighbour.seen.set()
        await until(lambda: loops.made and loops.made[0].models == ["m"])


async def test_what_another_operator_manages_is_left_alone_until_it_goes(loops: type[FakeLoop]) -> None:
    neighbour = Neighbour(rules=True)
    neighbour.seen.set()
    async with a_server() as server, a_reign(server, loops, neighbour):
        await until(lambda: loops.made)
        # The second pass over a model begins when the first one has ended.
        asked = neighbour.asked
        neighbour.changed()
        await until(lambda: neighbour.asked > asked)
        assert server.writes == []
        assert loops.made[0].models == []

        neighbour.rules = False
        neighbour.changed()
        await until(lambda: loops.made[0].models == ["m"])


async def test_a_model_that_was_managed_is_left_alone_when_another_operator_comes_first(
    loops: type[FakeLoop],
) -> None:
    neighbour = Neighbour()
    neighbour.seen.set()
    async with a_server() as server, a_reign(server, loops, neighbour):
        await until(lambda: loops.made and loops.made[0].models == ["m"])
        neighbour.rules = True

        assert loops.made[0].models == []


async def test_a_tuning_loop_that_fails_is_started_again_after_a_pause_and_counted_and_the_log_says_why(
    loops: type[FakeLoop], caplog: pytest.LogCaptureFixture
) -> None:
    loops.fails.append(RuntimeError("a defect"))
    async with a_server() as server, a_reign(server, loops, restart_seconds=0.05) as reign:
        await until(lambda: len(loops.made) == 2)

        assert reign.value("tuning_restarts_total") == 1
        first, second = loops.made
        assert second.began_at - first.began_at >= 0.05
        assert "tuning loop failed, restart in 0 s" in caplog.text
        assert "RuntimeError: a defect" in caplog.text


async def test_what_a_tuning_loop_counted_goes_with_it(loops: type[FakeLoop]) -> None:
    loops.fails.append(RuntimeError("a defect"))
    loops.before_failing = lambda metrics: metrics.tuning.ticked(Key("default", "m"), a_decision(), POLICY)
    async with a_server() as server, a_reign(server, loops, restart_seconds=0.05) as reign:
        await until(lambda: len(loops.made) == 2)

        assert reign.of_model("batch_size") is None


async def test_a_tuning_loop_goes_on_with_the_epochs_of_the_one_before(loops: type[FakeLoop]) -> None:
    loops.fails.append(RuntimeError("a defect"))
    async with a_server() as server, a_reign(server, loops, restart_seconds=0.05):
        await until(lambda: len(loops.made) == 2)

        first, second = loops.made
        assert second.engines.versions is first.engines.versions


async def test_models_are_reconciled_while_the_tuning_loop_waits_to_be_started_again(
    loops: type[FakeLoop],
) -> None:
    loops.fails.append(RuntimeError("a defect"))
    async with a_server() as server, a_reign(server, loops, restart_seconds=3600.0):
        await until(lambda: loops.made and not loops.fails)
        await until(lambda: "Ready" in server.conditions("m"))

        assert len(loops.made) == 1


async def test_an_urgent_change_wakes_the_tuning_loop(loops: type[FakeLoop]) -> None:
    async with a_server() as server, a_reign(server, loops):
        await until(lambda: loops.made)
        QuietWatch.urgent(Key("default", "m"))

        assert loops.made[0].looked == [Key("default", "m")]


async def test_a_model_whose_pods_an_earlier_operator_left_is_looked_at_once_it_is_reconciled(
    loops: type[FakeLoop],
) -> None:
    neighbour = Neighbour(rules=True)
    neighbour.seen.set()
    async with a_server() as server:
        server.add(MODELS, a_raw_model("without-pods"))
        server.add(PODS, a_raw_pod("m-1"))
        async with a_reign(server, loops, neighbour) as reign:
            await until(lambda: loops.made)
            neighbour.rules = False
            neighbour.changed()
            await until(lambda: loops.made[0].looked)
            await until(lambda: reconciles(reign, "done") >= 2 and len(loops.made[0].models) == 2)

            assert set(loops.made[0].looked) == {Key("default", "m")}


async def test_an_urgent_change_finds_no_loop_while_it_waits_to_be_started_again(
    loops: type[FakeLoop],
) -> None:
    loops.fails.append(RuntimeError("a defect"))
    async with a_server() as server, a_reign(server, loops, restart_seconds=3600.0) as reign:
        await until(lambda: reign.value("tuning_restarts_total") == 1)
        QuietWatch.urgent(Key("default", "m"))

        assert loops.made[0].looked == []


async def test_the_metrics_of_a_reign_go_with_it(loops: type[FakeLoop]) -> None:
    async with a_server() as server:
        async with a_reign(server, loops) as reign:
            await until(lambda: reign.value("models") == 1)
            reign.metrics.demand.show("default", "m", required_replicas=1, saturation_ratio=0.5, now=1e9)
            reign.metrics.tuning.ticked(Key("default", "m"), a_decision(), POLICY)
            await until(lambda: "Ready" in reign.conditions)

        assert reign.value("models") == 0
        rows = {"namespace": "default", "model": "m"}
        assert reign.metrics.registry.get_sample_value("outrider_required_replicas", rows) is None
        assert reign.conditions == []
        assert reign.of_model("batch_size") is None


async def test_a_model_is_shown_by_the_operator_that_manages_it_and_not_by_the_other(
    loops: type[FakeLoop],
) -> None:
    neighbour = Neighbour()
    neighbour.seen.set()
    async with a_server() as server, a_reign(server, loops, neighbour) as reign:
        await until(lambda: "Ready" in reign.conditions)
        neighbour.rules = True

        assert reign.conditions == []


def reconciles(reign: Reign, outcome: str) -> float:
    labels = {"outcome": outcome}
    return reign.metrics.registry.get_sample_value("outrider_operator_reconciles_total", labels) or 0.0


async def test_a_reconcile_is_a_span_with_its_model_and_reason_and_without_its_key(
    loops: type[FakeLoop],
) -> None:
    spans = Spans()
    async with a_server() as server:
        with spans.traced() as traces:
            async with a_reign(server, loops, traces=traces) as reign:
                await until(lambda: reconciles(reign, "done"))
        secret = server.find(SECRETS, control_secret("m"))

    assert dict(spans.named("reconcile")[0].attributes or {}) == {
        "k8s.namespace.name": "default",
        "outrider.model": "m",
        "outrider.reason": "RollingOut",
        "outrider.ready_replicas": 0,
    }
    assert secret is not None
    key = base64.b64decode(secret["data"][PRIVATE_KEY])
    assert places(key, {span.name: span.to_json() for span in spans.all}) == []


async def test_the_span_of_a_reconcile_that_fails_has_the_type_of_the_error_and_none_of_its_words(
    loops: type[FakeLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> float | None:
        raise LookupError("words of somebody else")

    monkeypatch.setattr(Reconciler, "reconcile", fail)
    spans = Spans()
    async with a_server() as server:
        with spans.traced() as traces:
            async with a_reign(server, loops, traces=traces) as reign:
                await until(lambda: reconciles(reign, "error"))

    failed = spans.named("reconcile")[0]
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "LookupError")
    assert "words of somebody else" not in failed.to_json()


async def test_a_model_whose_passes_take_too_much_cpu_rests_and_says_so_and_the_others_do_not(
    loops: type[FakeLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[str] = []
    reconcile = Reconciler.reconcile

    async def computes(self: Reconciler, key: Key) -> float | None:
        passes.append(key.name)
        until = time.thread_time() + (0.5 if key.name == "dear" else 0)
        while time.thread_time() < until:
            pass
        return await reconcile(self, key)

    monkeypatch.setattr(Reconciler, "reconcile", computes)
    async with a_cluster_server() as server:
        for name in ("dear", "other"):
            server.add(MODELS, a_raw_model(name, uid=f"uid-{name}"))
        async with a_reign(server, loops, cpu_seconds=0.4) as reign:
            await until(lambda: "other" in passes and told_of_cpu(server))
            for _ in range(20):
                reign.leader._reconcile_all()
                await asyncio.sleep(0.01)
            await until(lambda: passes.count("other") > 2)

            assert passes.count("dear") == 1
            (note,) = told_of_cpu(server)
            assert re.search(r"took \d\.\d s of CPU and may take 0\.4 s", note)


def told_of_cpu(server: ClusterServer) -> list[str]:
    return [event["note"] for event in server.of(EVENTS) if event["reason"] == "CPUBudgetExceeded"]
