from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client import ApiClient, Configuration

from outrider.cluster.lease import Leadership, LeaseName, NotLeader, Sole

CREATED = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class LeaseServer:
    """Keeps one Lease as the API server does, with optimistic locking."""

    lease: dict[str, Any] | None = None
    version: int = 0
    now: datetime = CREATED
    log: list[str] = field(default_factory=list)

    async def __call__(self, request: web.Request) -> web.Response:
        self.log.append(request.method)
        if request.method == "GET":
            return web.json_response(self.lease) if self.lease else self._refuse(404)
        body = json.loads(await request.text())
        if self.lease and body["metadata"].get("resourceVersion") != str(self.version):
            return self._refuse(409)
        if self.lease is None:
            body["metadata"]["creationTimestamp"] = self.now.isoformat()
        self.version += 1
        body["metadata"] |= {"resourceVersion": str(self.version), "namespace": "default"}
        self.lease = body
        return web.json_response(body, status=201 if request.method == "POST" else 200)

    def _refuse(self, code: int) -> web.Response:
        return web.json_response({"kind": "Status", "code": code}, status=code)

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


@asynccontextmanager
async def a_lease_server(server: LeaseServer) -> AsyncIterator[ApiClient]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.__call__)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = Configuration()
    configuration.host = "http://{}:{}".format(*runner.addresses[0][:2])
    api = ApiClient(configuration)
    try:
        yield api
    finally:
        await api.close()
        await runner.cleanup()


async def elect(api: ApiClient) -> tuple[Leadership, asyncio.Task[None]]:
    leadership = Leadership(api, LeaseName("default"))
    task = asyncio.create_task(leadership.run())
    async with asyncio.timeout(10):
        await leadership.elected()
    return leadership, task


async def test_the_first_leader_holds_the_lease() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        task.cancel()
    assert leadership.term == int(CREATED.timestamp()) + 1
    assert server.spec["leaseTransitions"] == 1
    assert server.spec["holderIdentity"] == leadership.identity


async def test_the_next_leader_has_a_larger_term() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        first, task = await elect(api)
        task.cancel()
        await first.release()
        second, task = await elect(api)
        task.cancel()
    assert second.term == first.term + 1


async def test_terms_rise_over_a_deleted_lease() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        terms = []
        for _ in range(3):
            leader, task = await elect(api)
            task.cancel()
            await leader.release()
            terms.append(leader.term)
        server.lease, server.now = None, CREATED + timedelta(seconds=10)
        successor, task = await elect(api)
        task.cancel()
    assert successor.term > max(terms)


async def test_a_released_lease_has_no_holder() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        task.cancel()
        await leadership.release()
    assert "holderIdentity" not in server.spec


async def test_never_releases_the_lease_of_another() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        task.cancel()
        server.spec["holderIdentity"] = "another"
        await leadership.release()
    assert server.spec["holderIdentity"] == "another"


async def test_a_leader_may_write() -> None:
    async with a_lease_server(LeaseServer()) as api:
        leadership, task = await elect(api)
        leadership.check()
        assert leadership.in_touch
        task.cancel()


async def test_nobody_may_write_before_the_election() -> None:
    async with a_lease_server(LeaseServer()) as api:
        leadership = Leadership(api, LeaseName("default"))
        with pytest.raises(NotLeader):
            leadership.check()
        assert not leadership.in_touch


async def test_nobody_may_write_after_the_release() -> None:
    async with a_lease_server(LeaseServer()) as api:
        leadership, task = await elect(api)
        task.cancel()
        await leadership.release()
        with pytest.raises(NotLeader):
            leadership.check()


async def test_each_candidate_has_an_identity_of_its_own() -> None:
    async with a_lease_server(LeaseServer()) as api:
        candidates = [Leadership(api, LeaseName("default")) for _ in range(2)]
    assert candidates[0].identity != candidates[1].identity


async def test_a_sole_operator_that_restarts_has_a_larger_term() -> None:
    assert Sole(started_at=1000.0).term < Sole(started_at=1001.0).term
