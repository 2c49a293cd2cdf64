"""A leader whose Lease is held on a thread of its own, beside a loop that does the work."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from aiohttp import web
from kubernetes.aio.client import ApiClient, Configuration

from outrider.cluster import lease, term_lock
from outrider.cluster.installation import Claim
from outrider.cluster.lease import Leadership, LeadershipElsewhere, LeaseName, NotLeader
from outrider.loop_thread import LoopThread, ThreadEnded
from tests.unit.cluster.factories import crash
from tests.unit.cluster.lease_server import LeaseServer
from tests.unit.cluster.quick_election import hurry

BLOCKED_SECONDS = 5.0
"""Longer than the Lease of these tests."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@asynccontextmanager
async def a_lease_server(server: LeaseServer) -> AsyncIterator[str]:
    """Its URL. It answers on a thread of its own, whatever the test does to its loop."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.__call__)
    runner = web.AppRunner(app)

    async def start() -> str:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return "http://{}:{}".format(*runner.addresses[0][:2])

    async with LoopThread("server") as thread:
        try:
            yield await thread.run(start())
        finally:
            await thread.run(runner.cleanup())


@asynccontextmanager
async def a_leader(server: LeaseServer) -> AsyncIterator[tuple[LeadershipElsewhere, LoopThread]]:
    """Elected, and the thread of its Lease."""
    async with a_lease_server(server) as url, LoopThread("lease") as thread:
        configuration = Configuration()
        configuration.host = url
        api = ApiClient(configuration)
        leader = LeadershipElsewhere(Leadership(api, LeaseName("default")), thread)
        running = asyncio.create_task(leader.run())
        async with asyncio.timeout(60):
            await leader.elected()
        try:
            yield leader, thread
        finally:
            running.cancel()
            await asyncio.wait([running])
            if thread.runs:
                await thread.run(api.close())  # type: ignore[no-untyped-call]


def compute(seconds: float) -> None:
    """What a loop does that takes no turn."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))


def sleep(seconds: float) -> None:
    time.sleep(seconds)


@pytest.mark.parametrize("block", [compute, sleep])
async def test_a_leader_keeps_its_lease_while_the_loop_of_its_work_is_blocked(
    monkeypatch: pytest.MonkeyPatch, block: Callable[[float], None]
) -> None:
    hurry(monkeypatch, lasts=4, deadline=3.5)
    server = LeaseServer()
    async with a_leader(server) as (leader, _):
        renewed, until = server.log.count("PUT"), time.monotonic() + BLOCKED_SECONDS
        while time.monotonic() < until or server.log.count("PUT") <= renewed + 10:
            block(0.1)
            leader.check()
    assert server.spec["holderIdentity"] == leader.identity


async def test_a_leader_that_saw_anothers_name_may_not_write_though_the_thread_is_busy() -> None:
    go_on = threading.Event()
    async with a_leader(LeaseServer()) as (leader, thread):
        leader.saw(leader.identity)
        leader.check()
        thread.call(lambda: go_on.wait(60))
        leader.saw("another")
        with pytest.raises(NotLeader):
            leader.check()
        go_on.set()
        async with asyncio.timeout(30):
            await leader.lost()


async def test_what_is_published_is_on_the_lease_and_the_term_is_in_use() -> None:
    server = LeaseServer()
    async with a_leader(server) as (leader, _):
        async with asyncio.timeout(30):
            await leader.publish(Claim(frozenset({"x"})), above=2**40)
        assert leader.term == 2**40 + 1
        assert leader.claim == Claim(frozenset({"x"}))
        assert leader.in_touch
    assert server.annotations["outrider.dev/watch-namespaces"] == "x"


async def test_a_lease_is_given_back_while_its_election_still_runs() -> None:
    server = LeaseServer()
    async with a_leader(server) as (leader, _):
        async with asyncio.timeout(30):
            await leader.release()
        with pytest.raises(NotLeader):
            leader.check()
    assert "holderIdentity" not in server.spec


async def test_a_leader_whose_thread_crashed_learns_of_it_and_may_not_write_once_the_lease_has_run_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_leader(LeaseServer()) as (leader, thread):
        waiting = asyncio.create_task(leader.lost())
        await asyncio.sleep(0)
        thread.call(crash)
        with pytest.raises(ThreadEnded, match="thread lease has ended: SystemExit: out of memory"):
            await waiting
        with pytest.raises(ThreadEnded):
            await leader.lost()
        late = time.monotonic() + term_lock.LEASE_SECONDS + 1
        monkeypatch.setattr(lease, "time", SimpleNamespace(monotonic=lambda: late))
        with pytest.raises(NotLeader):
            leader.check()


async def test_after_a_pause_of_the_whole_process_nothing_is_written_before_a_renewal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, go_on = LeaseServer(), threading.Event()
    async with a_leader(server) as (leader, thread):
        # Paused as the thread is, it has not renewed when the first write is tried.
        thread.call(lambda: go_on.wait(60))
        awake_at = time.monotonic() + term_lock.LEASE_SECONDS + 1
        monkeypatch.setattr(lease, "time", SimpleNamespace(monotonic=lambda: awake_at))
        with pytest.raises(NotLeader):
            leader.check()
        go_on.set()
