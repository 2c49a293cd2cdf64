"""One process is a candidate for several Leases, and leads one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from outrider.cluster.installation import SHARD_ANNOTATION, SINCE_ANNOTATION, Claim
from outrider.cluster.lease import Leadership, LeaseName
from outrider.cluster.resources import LEASES
from outrider.cluster.shard_election import ShardElection
from outrider.cluster.shards import Shard
from outrider.cluster.term_lock import Turn
from tests.unit.cluster.quick_election import hurry
from tests.unit.controller.cluster_server import ClusterServer, a_cluster_server, a_connection, until


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@asynccontextmanager
async def a_candidate(server: ClusterServer, of: int) -> AsyncIterator[ShardElection]:
    async with a_connection(server, "a") as api:
        turn = Turn()
        shards = [Shard(number, of) for number in range(1, of + 1)]
        election = ShardElection(
            [
                Leadership(
                    api, LeaseName("a", shard.lease_name("outrider")), claim=Claim(shard=shard), turn=turn
                )
                for shard in shards
            ]
        )
        task = asyncio.create_task(election.run())
        try:
            yield election
        finally:
            task.cancel()
            await asyncio.wait([task])
            await election.release()


def holders(server: ClusterServer, of: int) -> list[str]:
    names = [Shard(number, of).lease_name("outrider") for number in range(1, of + 1)]
    found = (server.find(LEASES, name, "a") for name in names)
    return [(each or {}).get("spec", {}).get("holderIdentity") or "" for each in found]


async def test_each_process_leads_one_shard_and_a_further_one_waits() -> None:
    async with a_cluster_server() as server, a_candidate(server, 2) as one, a_candidate(server, 2) as other:
        await until(lambda: one.leads and other.leads)
        async with a_candidate(server, 2) as standby:
            await until(lambda: standby.in_touch)
            assert {one.claim.shard, other.claim.shard} == {Shard(1, 2), Shard(2, 2)}
            assert (standby.leads, standby.term) == (False, 0)
            assert sorted(holders(server, 2)) == sorted([one.identity, other.identity])


async def test_a_standby_takes_the_shard_that_is_given_back() -> None:
    async with a_cluster_server() as server, a_candidate(server, 2) as one:
        async with a_candidate(server, 2) as other:
            await until(lambda: one.leads and other.leads)
            shard, term = other.claim.shard, other.term
            standby = a_candidate(server, 2)
            waiting = await standby.__aenter__()
        await until(lambda: waiting.leads)
        assert (waiting.claim.shard, waiting.term > term) == (shard, True)
        await standby.__aexit__(None, None, None)


async def test_a_lease_states_its_shard_and_the_version_at_which_it_was_taken() -> None:
    async with a_cluster_server() as server, a_candidate(server, 1) as one:
        await until(lambda: one.leads)
        await one.publish(one.claim, above=0)
        annotations = server.lease("a")["metadata"]["annotations"]
        assert annotations[SHARD_ANNOTATION] == "1-of-1"
        assert annotations[SINCE_ANNOTATION] == str(one.since)


async def test_a_lost_shard_ends_the_term() -> None:
    async with a_cluster_server() as server, a_candidate(server, 1) as one:
        await until(lambda: one.leads)
        server.edit_lease("a", holderIdentity="another")
        async with asyncio.timeout(30):
            await one.lost()
        assert not one.leads
