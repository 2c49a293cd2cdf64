"""Whole operators on an API server: they wait, lead, lose the Lease, and share a cluster."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from outrider.cluster.installation import TERM_ANNOTATION, Claim
from outrider.cluster.resources import LEASES, MODELS, PODS
from outrider.controller import leader, other_installations, process
from outrider.controller.http_server import Heartbeat
from outrider.controller.process import Stuck, operate, run_operator
from outrider.controller.settings import LeaderElection, Settings
from outrider.controller.watch import ClusterWatch
from outrider.loop_thread import LoopThread, ThreadEnded
from tests.unit.cluster.factories import crash
from tests.unit.cluster.installations import a_raw_lease
from tests.unit.cluster.quick_election import hurry
from tests.unit.controller.cluster_server import ClusterServer, a_cluster_server, a_connection, until
from tests.unit.controller.factories import a_raw_model
from tests.unit.controller.fake_loop import FakeLoop, a_kind_of_loop


@dataclass
class Served:
    """What an operator would show on its port."""

    registry: CollectorRegistry
    ready: Callable[[], bool]
    heartbeat: Heartbeat

    def value(self, metric: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"outrider_operator_{metric}", labels)


@dataclass
class Operator:
    """One that runs. namespace: where its Lease lies. kind: of all loops, of other operators too."""

    namespace: str
    task: asyncio.Task[None]
    served: Served
    kind: type[FakeLoop]

    @property
    def leads(self) -> bool:
        return self.served.value("leader", shard="1") == 1

    @property
    def loops(self) -> list[FakeLoop]:
        return [loop for loop in self.kind.made if loop.metrics.registry is self.served.registry]

    @property
    def tunes(self) -> list[str]:
        """The models that it tunes at this moment."""
        return [name for loop in self.loops if not loop.ended for name in loop.models]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(other_installations, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(ClusterWatch, "watch_forever", _forever)


async def _forever(*_: object) -> None:
    await asyncio.Event().wait()


Start = Callable[..., AbstractAsyncContextManager[Operator]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts an operator whose Lease is in ``namespace`` and which watches ``watched``, else everything."""
    kind = a_kind_of_loop()
    monkeypatch.setattr(leader, "TuningLoop", kind)

    @asynccontextmanager
    async def an_operator(
        server: ClusterServer, namespace: str = "a", *watched: str, stop_seconds: float = 5.0, **settings: Any
    ) -> AsyncIterator[Operator]:
        here = asyncio.get_running_loop()
        shown: asyncio.Future[Served] = here.create_future()

        async def serve(
            *, registry: CollectorRegistry, ready: Callable[[], bool], heartbeat: Heartbeat, **_: object
        ) -> None:
            here.call_soon_threadsafe(shown.set_result, Served(registry, ready, heartbeat))
            await asyncio.Event().wait()

        monkeypatch.setattr(process, "serve", serve)
        chosen = Settings(lease_namespace=namespace, watch_namespaces=watched, **settings)
        async with a_connection(server, namespace) as api:
            task = asyncio.create_task(operate(chosen, api, stop_seconds=stop_seconds))
            operator = Operator(namespace, task, await shown, kind)
            try:
                yield operator
            finally:
                if kind.clings is not None:
                    kind.clings.set()
                await stop(operator)

    return an_operator


async def stop(operator: Operator) -> None:
    """The Lease is given back."""
    operator.task.cancel()
    await asyncio.wait([operator.task])


async def kill(operator: Operator, server: ClusterServer) -> None:
    """As when its node dies: the Lease is not given back, and runs out."""
    path = LEASES.path(operator.namespace, "outrider")
    server.refuse = lambda asked: 503 if (asked.method, asked.path) == ("PUT", path) else None
    await stop(operator)
    server.heal()
    server.edit_lease(operator.namespace, leaseDurationSeconds=1)


def depose(server: ClusterServer, namespace: str = "a") -> None:
    server.edit_lease(namespace, holderIdentity="another")


def give_back(server: ClusterServer, namespace: str = "a") -> None:
    server.edit_lease(namespace, holderIdentity=None)


def term(operator: Operator) -> int:
    return operator.loops[-1].engines.term()


@asynccontextmanager
async def a_cluster_of(*models: dict[str, Any]) -> AsyncIterator[ClusterServer]:
    async with a_cluster_server() as server:
        for model in models:
            server.add(MODELS, model)
        yield server


def _looks(asked: web.Request) -> bool:
    return asked.method == "GET" and asked.path == LEASES.path(None)


def hangs_up(asked: web.Request) -> None:
    """No answer comes of any request."""
    assert asked.transport is not None
    asked.transport.abort()


async def test_a_leader_that_lost_its_lease_stands_by_and_leads_again_with_a_higher_term(
    start: Start,
) -> None:
    async with a_cluster_server() as server, start(server) as operator:
        await until(lambda: operator.loops)
        before = term(operator)
        depose(server)
        await until(lambda: not operator.leads)
        give_back(server)
        await until(lambda: len(operator.loops) == 2)

        assert operator.leads
        assert term(operator) > before
        assert operator.served.value("leases_lost_total") == 1


async def test_a_leader_without_rival_takes_the_lease_again_when_the_api_server_answers_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch, lasts=1, deadline=0.5)
    async with a_cluster_server() as server, start(server) as operator:
        await until(lambda: operator.loops)
        before = term(operator)
        server.refuse = lambda asked: 503 if "/leases" in asked.path else None
        await until(lambda: operator.served.value("leases_lost_total"))
        server.heal()
        await until(lambda: len(operator.loops) > 1)

        assert term(operator) > before


async def test_a_leader_that_finds_anothers_name_among_the_leases_stops_before_it_renews(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch, lasts=3600, deadline=3000, retry=2000)
    async with a_cluster_server() as server, start(server) as operator:
        renewal = f"PUT {LEASES.path('a', 'outrider')}"
        await until(lambda: operator.loops and server.asked.count(renewal) == 2)
        depose(server)
        await until(lambda: operator.served.value("leases_lost_total") == 1)

        assert [loop.ended for loop in operator.loops] == [True]
        assert server.asked.count(renewal) == 2


async def test_nothing_of_an_old_reign_goes_on(start: Start) -> None:
    async with a_cluster_of(a_raw_model()) as server, start(server) as operator:
        await until(lambda: operator.tunes)
        assert operator.served.value("models") == 1
        depose(server)
        await until(lambda: operator.served.value("leases_lost_total") == 1)

        assert [loop.ended for loop in operator.loops] == [True]
        assert operator.served.value("models") == 0
        assert operator.served.value("leader", shard="") == 0


async def test_a_reign_that_does_not_end_ends_the_process(start: Start) -> None:
    async with a_cluster_server() as server, start(server, stop_seconds=0.5) as operator:
        await until(lambda: operator.loops)
        operator.kind.clings = asyncio.Event()
        depose(server)
        with pytest.raises(Stuck, match="leader did not end"):
            await operator.task


async def test_a_reign_that_does_not_end_does_not_give_its_lease_back(start: Start) -> None:
    async with a_cluster_server() as server, start(server, stop_seconds=0.5) as operator:
        await until(lambda: operator.loops)
        operator.kind.clings = asyncio.Event()
        os.kill(os.getpid(), signal.SIGTERM)
        # Of the reign: the process gives it more time than the reign gives its parts.
        with pytest.raises(Stuck, match="leader did not end"):
            await operator.task

        assert server.lease("a")["spec"].get("holderIdentity")


async def nowhere() -> AbstractAsyncContextManager[None]:
    """A connection to no API server."""
    return nullcontext()


@pytest.mark.parametrize("error", [Stuck, ThreadEnded])
async def test_a_stuck_process_ends_with_an_error_though_asyncio_would_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    ends: list[object] = []

    async def stuck(*_: object) -> None:
        raise error("leader did not end")

    monkeypatch.setattr(process, "connect", nowhere)
    monkeypatch.setattr(process, "operate", stuck)
    monkeypatch.setattr(os, "_exit", ends.append)
    monkeypatch.setattr(logging, "shutdown", lambda: ends.append("the log is written"))
    await run_operator(Settings())

    assert ends == ["the log is written", 1]
    assert "leader did not end; the process ends" in caplog.text


async def test_a_process_whose_lease_thread_ended_ends_with_an_error(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[LoopThread] = []

    def a_thread(name: str) -> LoopThread:
        threads.append(LoopThread(name))
        return threads[-1]

    monkeypatch.setattr(process, "LoopThread", a_thread)
    async with a_cluster_server() as server, start(server) as operator:
        await until(lambda: operator.loops)
        (lease_thread,) = (each for each in threads if each.name == "lease")
        lease_thread.call(crash)
        with pytest.raises(ThreadEnded, match="the thread lease has ended: SystemExit"):
            await operator.task

        assert [loop.ended for loop in operator.loops] == [True]


async def test_the_heart_of_an_operator_beats(start: Start) -> None:
    async with a_cluster_server() as server, start(server) as operator:
        await until(lambda: operator.leads)
        heart = operator.served.heartbeat
        heart._at = 0.0
        await until(lambda: heart.silence < 60)


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
async def test_an_operator_that_is_told_to_stop_gives_its_lease_back(
    start: Start, told: signal.Signals
) -> None:
    async with a_cluster_server() as server, start(server) as operator:
        await until(lambda: operator.loops)
        os.kill(os.getpid(), told)
        await operator.task

        assert "holderIdentity" not in server.lease("a")["spec"]


async def test_an_error_of_a_reign_ends_the_process_with_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(ClusterWatch, "watch_forever", broken)
    async with a_cluster_server() as server, start(server) as operator:
        with pytest.raises(ExceptionGroup):
            await operator.task


async def test_a_leader_is_ready_once_it_has_read_everything(start: Start) -> None:
    async with a_cluster_server() as server:
        server.refuse = lambda asked: 403 if asked.path == PODS.path(None) else None
        async with start(server) as operator:
            await until(lambda: operator.leads)
            assert not operator.served.ready()
            server.heal()
            await until(operator.served.ready)


async def test_an_operator_that_gets_no_answer_about_the_lease_is_not_ready(start: Start) -> None:
    async with a_cluster_server() as server:
        server.refuse = hangs_up
        async with start(server) as operator:
            await until(lambda: len(server.asked) >= 3)
            assert not operator.served.ready()
            server.heal()
            await until(operator.served.ready)


async def test_the_log_tells_of_standing_by_leading_losing_the_lease_and_being_told_to_stop(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger=process.__name__)
    async with a_cluster_server() as server, start(server) as operator:
        await until(lambda: operator.loops)
        leading = term(operator)
        depose(server)
        await until(lambda: operator.served.value("leases_lost_total"))
        os.kill(os.getpid(), signal.SIGTERM)
        await operator.task

    told = [record.getMessage() for record in caplog.records if record.name == process.__name__]
    assert told[0].startswith("waiting for the Lease as ")
    assert told[1] == f"leading, term {leading}"
    assert "leadership lost; waiting for the Lease again" in told
    assert told[-1] == "received a signal to stop"


async def test_without_leader_election_an_operator_leads_at_once_and_asks_for_no_lease(start: Start) -> None:
    async with a_cluster_of(a_raw_model()) as server:
        began = int(time.time())
        async with start(server, leader_election=LeaderElection.OFF) as operator:
            await until(lambda: operator.tunes == ["m"] and operator.served.ready())

            assert began <= term(operator) <= time.time()
    assert [asked for asked in server.asked if "/leases" in asked] == []


async def test_a_candidate_is_ready_while_another_one_leads(start: Start) -> None:
    async with a_cluster_server() as server, start(server) as first:
        await until(lambda: first.leads)
        async with start(server) as second:
            await until(second.served.ready)

            assert not second.leads


async def test_a_second_installation_leaves_the_models_of_the_first_one_alone(start: Start) -> None:
    async with a_cluster_of(a_raw_model()) as server, start(server, "a") as first:
        await until(lambda: first.tunes)
        async with start(server, "b") as second:
            await until(lambda: second.loops)

            assert (first.tunes, second.tunes) == (["m"], [])
            assert first.served.value("reconciles_total", outcome="done")
            assert not second.served.value("reconciles_total", outcome="done")


async def test_a_second_installation_logs_why_it_refuses_the_models_and_counts_the_first_one(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_cluster_of(a_raw_model()) as server, start(server, "a") as first:
        await until(lambda: first.tunes)
        async with start(server, "b") as second:
            await until(lambda: second.loops)

            assert "refused: models in all namespaces, because the operator in namespace a" in caplog.text
            assert second.served.value("other_installations") == 1
            assert first.served.value("other_installations") == 0


async def test_the_second_installation_takes_over_with_a_higher_term_when_the_first_ones_lease_runs_out(
    start: Start,
) -> None:
    async with a_cluster_of(a_raw_model()) as server, start(server, "a") as first:
        await until(lambda: first.tunes)
        # As after many changes of leader.
        before = term(first)
        server.edit_lease("a", leaseTransitions=1000)
        await until(lambda: term(first) > before + 900)
        async with start(server, "b") as second:
            await until(lambda: second.loops)
            await kill(first, server)
            await until(lambda: second.tunes == ["m"])

            assert term(second) > term(first)


async def test_the_first_installation_stands_by_when_it_returns(start: Start) -> None:
    async with a_cluster_of(a_raw_model()) as server, start(server, "a") as first:
        await until(lambda: first.tunes)
        async with start(server, "b") as second:
            await until(lambda: second.loops)
            await stop(first)
            await until(lambda: second.tunes == ["m"])
            async with start(server, "a") as returned:
                await until(lambda: returned.loops)

                assert (returned.tunes, second.tunes) == ([], ["m"])


async def test_installations_with_namespaces_of_their_own_do_not_mind_each_other(start: Start) -> None:
    async with (
        a_cluster_of(a_raw_model("m", namespace="x"), a_raw_model("n", namespace="y")) as server,
        start(server, "a", "x") as first,
        start(server, "b", "y") as second,
    ):
        await until(lambda: first.tunes and second.tunes)

        assert (first.tunes, second.tunes) == (["m"], ["n"])
        assert first.served.value("other_installations") == 0


async def test_an_installation_stands_by_for_the_shared_namespaces_only(start: Start) -> None:
    async with (
        a_cluster_of(a_raw_model("m", namespace="x"), a_raw_model("n", namespace="y")) as server,
        start(server, "a", "x") as first,
    ):
        await until(lambda: first.tunes)
        async with start(server, "b") as second:
            await until(lambda: second.tunes)

            assert (first.tunes, second.tunes) == (["m"], ["n"])


async def test_a_lease_of_somebody_who_may_not_manage_models_stops_nobody(start: Start) -> None:
    async with a_cluster_of(a_raw_model()) as server:
        server.managers = {"system:serviceaccount:a:outrider"}
        async with start(server, "b") as stranger:
            await until(lambda: stranger.loops)
            async with start(server, "a") as operator:
                await until(lambda: operator.tunes == ["m"])

                assert operator.served.value("other_installations") == 0


async def test_a_term_that_was_made_up_keeps_nobody_from_leading_and_is_not_outbid(start: Start) -> None:
    made_up = {**Claim(account="outrider").annotations(), TERM_ANNOTATION: "9" * 15}
    async with a_cluster_of(a_raw_model()) as server:
        server.add(LEASES, a_raw_lease("x", annotations=made_up))
        async with start(server, "a") as operator:
            await until(lambda: operator.tunes == ["m"])

            assert term(operator) < time.time() + 3600


async def test_an_installation_that_cannot_see_the_others_comes_first(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_cluster_of(a_raw_model()) as server, start(server, "a") as first:
        await until(lambda: first.tunes)
        before = term(first)
        server.refuse = lambda asked: 403 if _looks(asked) and asked.headers["User-Agent"] == "b" else None
        async with start(server, "b") as blind:
            await until(lambda: blind.tunes == ["m"] and first.tunes == [])

            assert "cannot detect others" in caplog.text
            assert term(blind) > before


async def test_an_operator_reads_json_as_deep_as_the_api_server_holds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[object] = []

    async def reads_deep_json(*_: object) -> None:
        read.append(json.loads("[" * 9_900 + "]" * 9_900))

    monkeypatch.setattr(process, "connect", nowhere)
    monkeypatch.setattr(process, "operate", reads_deep_json)
    await run_operator(Settings())

    assert len(read) == 1
