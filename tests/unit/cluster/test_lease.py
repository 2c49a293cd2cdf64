from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from kubernetes.aio.client import ApiClient, Configuration, V1Lease, V1LeaseSpec, V1ObjectMeta
from kubernetes.aio.leaderelection import leaderelection
from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelectionrecord import LeaderElectionRecord

from outrider.cluster import lease, term_lock
from outrider.cluster.installation import Claim
from outrider.cluster.lease import Leadership, LeaseName, NotLeader, Sole
from outrider.cluster.term_lock import LeadershipLost, TermLock
from tests.unit.cluster.lease_server import CREATED, LeaseServer
from tests.unit.cluster.quick_election import hurry

PAUSES = lease.RENEW_DEADLINE_SECONDS, term_lock.RETRY_SECONDS
"""As they are without a test: seconds."""


class Jumping:
    """The time of day; for the task ``rival`` it jumps after the first look at the Lease, again and again."""

    def __init__(self, *, by: float) -> None:
        self._by = by
        self._asked = 0

    def time(self) -> float:
        task = asyncio.current_task()
        if task is None or task.get_name() != "rival":
            return time.time()
        # The library asks twice when it sees a version of the Lease for the first time.
        jumps, self._asked = self._asked // 2, self._asked + 1
        return time.time() + self._by * jumps


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


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
        server.works.set()
        await api.close()  # type: ignore[no-untyped-call]
        await runner.cleanup()


async def elect(
    api: ApiClient, *, claim: Claim | None = None, now: datetime = CREATED, **seconds: Any
) -> tuple[Leadership, asyncio.Task[None]]:
    """now: what the clock of the elected one says, for ever."""
    leadership = Leadership(api, LeaseName("default"), claim=claim, clock=now.timestamp, **seconds)
    task = asyncio.create_task(leadership.run())
    async with asyncio.timeout(60):
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
    assert server.spec["leaseTransitions"] == 2


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


async def test_whoever_is_elected_after_an_operator_without_election_has_a_larger_term() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        first, task = await elect(api)
        task.cancel()
        await first.release()
        sole = Sole(started_at=(CREATED + timedelta(days=3)).timestamp())
        later, task = await elect(api, now=CREATED + timedelta(days=3, seconds=1))
        task.cancel()
    assert first.term < sole.term < later.term


async def test_the_first_one_elected_after_an_operator_without_election_has_a_larger_term() -> None:
    # The API server's clock is behind.
    server = LeaseServer()
    async with a_lease_server(server) as api:
        sole = Sole(started_at=(CREATED + timedelta(days=3)).timestamp())
        later, task = await elect(api, now=CREATED + timedelta(days=3, seconds=1))
        task.cancel()
    assert later.term > sole.term


async def test_a_term_rises_though_the_clock_is_behind() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        first, task = await elect(api, now=CREATED + timedelta(days=3))
        task.cancel()
        await first.release()
        second, task = await elect(api, now=CREATED)
        task.cancel()
    assert second.term == first.term + 1


async def test_a_renewal_leaves_the_term_as_it_is() -> None:
    server, times = LeaseServer(), itertools.count(CREATED.timestamp())
    async with a_lease_server(server) as api:
        leadership = Leadership(api, LeaseName("default"), clock=lambda: next(times))
        task = asyncio.create_task(leadership.run())
        await leadership.elected()
        before = leadership.term
        await server.until(lambda: server.log.count("PUT") >= 2)
        task.cancel()
    assert leadership.term == before


async def test_a_candidate_takes_the_lease_once_its_leader_gives_it_back() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        first, task = await elect(api)
        task.cancel()
        second = Leadership(api, LeaseName("default"), clock=CREATED.timestamp)
        waiting = asyncio.create_task(second.run())
        await server.until(lambda: server.log.count("GET") >= 3)
        assert second.term == 0

        await first.release()
        async with asyncio.timeout(60):
            await second.elected()
        waiting.cancel()
    assert second.term > first.term


async def test_a_leader_whose_lease_was_deleted_makes_it_again_and_leads_on() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        before, server.lease = leadership.term, None
        await server.until(lambda: server.lease)
        leadership.check()
        task.cancel()
    assert server.annotations["outrider.dev/term"] == str(before)


async def test_a_lease_that_tells_nothing_of_itself_is_taken() -> None:
    server = LeaseServer()
    server.lease = {
        "metadata": {"resourceVersion": "0", "creationTimestamp": CREATED.isoformat()},
        "spec": {},
    }
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        task.cancel()
    assert leadership.term == int(CREATED.timestamp()) + 1
    assert server.spec["leaseTransitions"] == 1


async def test_a_renewal_leaves_what_others_noted_on_the_lease_and_how_often_it_changed_hands() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        first, task = await elect(api)
        task.cancel()
        await first.release()
        server.annotations["example.com/note"] = "keep"
        _, task = await elect(api)
        await server.until(lambda: server.log.count("PUT") >= 4)
        task.cancel()
    assert server.annotations["example.com/note"] == "keep"
    assert server.spec["leaseTransitions"] == 2


async def test_a_released_lease_has_no_holder() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        task.cancel()
        await leadership.release()
    assert "holderIdentity" not in server.spec


async def test_a_lease_that_somebody_annotated_is_released_as_well() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        task.cancel()
        server.edit()
        await leadership.release()
    assert "holderIdentity" not in server.spec


async def test_a_candidate_that_stops_leaves_the_lease_of_its_leader_alone() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leader, task = await elect(api)
        task.cancel()
        await Leadership(api, LeaseName("default")).release()
    assert server.spec["holderIdentity"] == leader.identity


async def test_a_candidate_that_stops_makes_no_lease() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        await Leadership(api, LeaseName("default")).release()
    assert server.log == ["GET"]


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
        assert leadership.term == 0


async def test_nobody_may_write_after_the_release() -> None:
    async with a_lease_server(LeaseServer()) as api:
        leadership, task = await elect(api)
        task.cancel()
        await leadership.release()
        async with asyncio.timeout(60):
            await leadership.lost()
        with pytest.raises(NotLeader):
            leadership.check()


async def test_each_candidate_has_an_identity_of_its_own() -> None:
    async with a_lease_server(LeaseServer()) as api:
        candidates = [Leadership(api, LeaseName("default")) for _ in range(2)]
    assert candidates[0].identity != candidates[1].identity


async def test_a_lease_tells_what_its_holder_watches_from_the_first_moment() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        _, task = await elect(api, claim=Claim(frozenset({"x", "y"}), "operator"))
        task.cancel()
    assert server.log == ["GET", "POST"]
    assert server.annotations["outrider.dev/watch-namespaces"] == "x,y"
    assert server.annotations["outrider.dev/service-account"] == "operator"


async def test_a_renewal_is_one_request() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        _, task = await elect(api)
        await server.until(lambda: len(server.log) >= 4)
        task.cancel()
    assert server.log[:4] == ["GET", "POST", "PUT", "PUT"]


async def test_a_renewal_leaves_the_beginning_of_the_reign_as_it_is() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        _, task = await elect(api)
        first = dict(server.spec)
        await server.until(lambda: server.spec["renewTime"] != first["renewTime"])
        task.cancel()
    assert server.spec["acquireTime"] == first["acquireTime"]


async def test_times_are_written_in_utc_on_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    server = LeaseServer()
    try:
        async with a_lease_server(server) as api:
            _, task = await elect(api)
            task.cancel()
    finally:
        monkeypatch.undo()
        time.tzset()
    written = datetime.fromisoformat(server.spec["acquireTime"])
    assert abs(written - datetime.now(UTC)) < timedelta(minutes=1)


async def test_a_leader_has_not_lost_while_it_renews() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        lost = asyncio.create_task(leadership.lost())
        await server.until(lambda: server.log.count("PUT") >= 2)
        assert not lost.done()
        for each in (task, lost):
            each.cancel()


@pytest.mark.parametrize("holder", ["another", None])
async def test_a_leader_that_finds_another_holder_or_none_has_lost_and_never_takes_the_lease_again(
    holder: str | None,
) -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        server.edit(holderIdentity=holder)
        async with asyncio.timeout(30):
            await leadership.lost()
            await task
        with pytest.raises(NotLeader):
            leadership.check()
    assert server.spec["holderIdentity"] == holder


@pytest.mark.parametrize("holder", ["another", None])
async def test_a_renewal_that_another_write_has_overtaken_looks_at_once_whose_the_lease_is(
    holder: str | None,
) -> None:
    server, record = LeaseServer(), LeaderElectionRecord("me", "15", None, None)
    async with a_lease_server(server) as api:
        lock = TermLock("outrider", "default", "me", api, Claim())
        await lock.get("outrider", "default")
        assert await lock.create("outrider", "default", record)
        server.edit(holderIdentity=holder)
        with pytest.raises(LeadershipLost):
            await lock.update("outrider", "default", record)


async def test_a_renewal_that_met_another_annotation_is_no_loss() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        server.edit()
        await server.until(lambda: server.log[-2:] == ["GET", "PUT"])
        leadership.check()
        task.cancel()


async def test_a_leader_that_is_fenced_may_not_write_from_then_on() -> None:
    async with a_lease_server(LeaseServer()) as api:
        leadership, task = await elect(api)
        leadership.fence()
        with pytest.raises(NotLeader):
            leadership.check()
        task.cancel()


async def test_the_release_of_a_lease_ends_the_election_before_it() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        await leadership.release()
        assert task.cancelled()
    assert "holderIdentity" not in server.spec


async def test_a_leader_whose_requests_hang_may_not_write_once_the_lease_could_be_anothers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hurry(monkeypatch, lasts=1, deadline=0.5)
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        server.works.clear()
        async with asyncio.timeout(30):
            await leadership.lost()
        with pytest.raises(NotLeader):
            leadership.check()
        await task


async def test_a_leader_that_slept_for_longer_than_its_lease_may_not_write_though_it_has_not_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_lease_server(LeaseServer()) as api:
        leadership, task = await elect(api)
        before = leadership.leads
        awake_at = time.monotonic() + term_lock.LEASE_SECONDS + 1
        monkeypatch.setattr(lease, "time", SimpleNamespace(monotonic=lambda: awake_at))
        assert (before, leadership.leads) == (True, False)
        with pytest.raises(NotLeader):
            leadership.check()
        task.cancel()


async def test_a_leader_that_slept_for_longer_than_its_lease_has_lost_with_its_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hurry(monkeypatch, deadline=3600)
    async with a_lease_server(LeaseServer()) as api:
        leadership, task = await elect(api)
        awake_at = time.monotonic() + term_lock.LEASE_SECONDS + 1
        monkeypatch.setattr(term_lock, "time", SimpleNamespace(monotonic=lambda: awake_at))
        async with asyncio.timeout(30):
            await leadership.lost()
        await task


async def test_no_request_lasts_longer_than_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch, lasts=1, deadline=0.5)
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api, request_seconds=3600.0)
        server.works.clear()
        async with asyncio.timeout(30):
            await leadership.lost()
        await task


def a_lock(api: ApiClient, identity: str = "me", **seconds: Any) -> tuple[TermLock, LeaderElectionRecord]:
    """And the record of its candidate."""
    lock = TermLock("outrider", "default", identity, api, Claim(), **seconds)
    return lock, LeaderElectionRecord(identity, "15", None, None)


NO_ANSWER = [
    aiohttp.ServerDisconnectedError(),
    ConnectionResetError(),
    TimeoutError(),
    ValueError("a page of a proxy"),
]


@pytest.mark.parametrize("error", NO_ANSWER, ids=lambda error: type(error).__name__)
async def test_a_request_without_an_answer_has_failed_and_changes_nothing(error: Exception) -> None:
    async def asks(*_: object) -> None:
        raise error

    async with a_lease_server(LeaseServer()) as api:
        lock, record = a_lock(api)
        lock.api_instance = SimpleNamespace(read_namespaced_lease=asks, create_namespaced_lease=asks)  # type: ignore[assignment]
        found, _ = await lock.get("outrider", "default")
        assert not found
        assert not await lock.create("outrider", "default", record)
    assert (lock.term, lock.renewed_at, lock.answered_at) == (0, None, None)


async def test_a_lease_that_cannot_be_read_is_not_released() -> None:
    async def asks(*_: object) -> None:
        raise TimeoutError

    server = LeaseServer()
    async with a_lease_server(server) as api:
        lock, record = a_lock(api)
        assert await lock.create("outrider", "default", record)
        lock.api_instance.read_namespaced_lease = asks  # type: ignore[method-assign, assignment]
        await lock.release()
    assert server.spec["holderIdentity"] == "me"


async def test_a_lease_that_somebody_made_first_is_not_taken_for_ones_own() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        lock, record = a_lock(api)
        await lock.get("outrider", "default")
        _, task = await elect(api)
        task.cancel()
        assert not await lock.create("outrider", "default", record)
    assert (lock.term, lock.renewed_at) == (0, None)


@pytest.mark.parametrize("status", [403, 500])
async def test_a_refused_renewal_has_failed_and_asks_for_no_more(status: int) -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        lock, record = a_lock(api)
        assert await lock.create("outrider", "default", record)
        server.fails = status
        assert not await lock.update("outrider", "default", record)
    assert server.log == ["POST", "PUT"]


METADATA = V1ObjectMeta(name="outrider", creation_timestamp=CREATED)


@pytest.mark.parametrize("known", [None, V1Lease(spec=V1LeaseSpec()), V1Lease(metadata=METADATA)])
async def test_what_was_not_read_is_not_renewed(known: V1Lease | None) -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        lock, record = a_lock(api)
        lock.lease_reference = known
        assert not await lock.update("outrider", "default", record)
    assert server.log == []


@pytest.mark.parametrize("before", ["!another", "~another"], ids=["sorts before", "sorts after"])
async def test_whoever_takes_the_lease_of_another_counts_a_change_and_begins_a_reign(
    before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch, lasts=0)
    server = LeaseServer()
    async with a_lease_server(server) as api:
        old, record = a_lock(api, before)
        assert await old.create("outrider", "default", record)
        began = server.spec["acquireTime"]
        new, record = a_lock(api)
        await new.get("outrider", "default")
        assert await new.update("outrider", "default", record)
    assert new.term > old.term
    assert server.spec["leaseTransitions"] == 2
    assert server.spec["acquireTime"] > began


@pytest.mark.parametrize("holder", ["!another", "~another"], ids=["sorts before", "sorts after"])
async def test_anothers_lease_is_known_by_its_name(holder: str) -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        lock, record = a_lock(api)
        assert await lock.create("outrider", "default", record)
        server.edit(holderIdentity=holder)
        await lock.release()
    assert server.spec["holderIdentity"] == holder


async def test_a_clock_that_jumps_ahead_takes_no_lease_from_a_leader_that_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hurry(monkeypatch, retry=3600)
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, leads = await elect(api)
        hurry(monkeypatch)
        monkeypatch.setattr(leaderelection, "time", Jumping(by=86_400))
        rival = asyncio.create_task(Leadership(api, LeaseName("default")).run(), name="rival")
        await server.until(lambda: server.log.count("GET") > 8)
        rival.cancel()
        leads.cancel()
        leadership.check()
    assert server.spec["holderIdentity"] == leadership.identity
    assert server.spec["leaseTransitions"] == 1


async def test_a_clock_that_jumps_back_does_not_leave_the_lease_with_a_leader_that_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hurry(monkeypatch, lasts=1)
    server = LeaseServer()
    async with a_lease_server(server) as api:
        died, task = await elect(api)
        task.cancel()
        monkeypatch.setattr(leaderelection, "time", Jumping(by=-3600))
        leadership = Leadership(api, LeaseName("default"))
        task = asyncio.create_task(leadership.run(), name="rival")
        async with asyncio.timeout(30):
            await leadership.elected()
        task.cancel()
    assert leadership.term > died.term
    assert server.spec["holderIdentity"] == leadership.identity


async def test_a_lease_that_is_renewed_is_never_old_enough_to_be_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hurry(monkeypatch, lasts=1)
    server, now = LeaseServer(), 1000.0
    async with a_lease_server(server) as api:
        old, record = a_lock(api, "another")
        assert await old.create("outrider", "default", record)
        new, record = a_lock(api)
        for _ in range(5):
            now += 0.9
            monkeypatch.setattr(term_lock, "time", SimpleNamespace(monotonic=lambda now=now: now))
            assert (await new.get("outrider", "default"))[1] is not None
            assert not await new.update("outrider", "default", record)
            server.edit()
        now += 1.0
        monkeypatch.setattr(term_lock, "time", SimpleNamespace(monotonic=lambda: now))
        assert (await new.get("outrider", "default"))[1] is not None
        now += 1.0
        assert await new.get("outrider", "default") == (True, None)
        assert await new.update("outrider", "default", record)


async def test_a_request_of_a_leader_whose_lease_has_run_out_is_given_up_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        lock, record = a_lock(api, request_seconds=3600.0)
        assert await lock.create("outrider", "default", record)
        assert lock.renewed_at is not None
        late = lock.renewed_at + term_lock.LEASE_SECONDS + 1
        monkeypatch.setattr(term_lock, "time", SimpleNamespace(monotonic=lambda: late))
        server.works.clear()
        async with asyncio.timeout(30):
            assert not await lock.update("outrider", "default", record)


async def test_a_lease_without_its_time_of_creation_is_an_error() -> None:
    server = LeaseServer(stamps=False)
    async with a_lease_server(server) as api:
        lock, record = a_lock(api)
        with pytest.raises(RuntimeError, match="without a creation timestamp"):
            await lock.create("outrider", "default", record)


async def test_a_time_of_a_whole_second_is_written_with_a_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    # The API server takes no time without one.
    monkeypatch.setattr(term_lock, "datetime", SimpleNamespace(now=lambda _: CREATED))
    server = LeaseServer()
    async with a_lease_server(server) as api:
        lock, record = a_lock(api)
        assert await lock.create("outrider", "default", record)
    assert "." in server.spec["renewTime"]


async def test_a_leader_is_in_touch_until_the_last_answer_is_as_old_as_a_lease_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_lease_server(LeaseServer()) as api:
        leadership, task = await elect(api)
        task.cancel()
        answered_at = time.monotonic()
        for age, in_touch in (
            (0, True),
            (term_lock.LEASE_SECONDS - 1, True),
            (term_lock.LEASE_SECONDS + 1, False),
        ):
            now = answered_at + age
            monkeypatch.setattr(lease, "time", SimpleNamespace(monotonic=lambda now=now: now))
            assert leadership.in_touch is in_touch


def test_a_lease_lasts_as_long_as_those_of_kubernetes_own_components() -> None:
    # `_quick` changes the pauses for every other test.
    assert (term_lock.LEASE_SECONDS, PAUSES) == (15, (10, 2))


async def test_the_election_library_takes_the_durations() -> None:
    async with a_lease_server(LeaseServer()) as api:
        lock, _ = a_lock(api)
        deadline, retry = PAUSES
        Config(lock, term_lock.LEASE_SECONDS, deadline, retry, asyncio.sleep, asyncio.sleep)  # type: ignore[arg-type]
    assert term_lock.REQUEST_SECONDS + retry < deadline, "a request that hangs leaves time for another"


@pytest.mark.parametrize("renewed_every", [0.02, 3600])
async def test_a_claim_is_told_when_publishing_it_ends_however_far_the_next_renewal_is(
    monkeypatch: pytest.MonkeyPatch, renewed_every: float
) -> None:
    hurry(monkeypatch, retry=renewed_every)
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        async with asyncio.timeout(60):
            await leadership.publish(Claim(frozenset({"x"})), above=0)
        task.cancel()
    assert server.annotations["outrider.dev/watch-namespaces"] == "x"


async def test_a_claim_that_is_not_stored_is_told_with_the_next_renewal() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        server.fails, asked = 500, len(server.log)
        telling = asyncio.create_task(leadership.publish(Claim(frozenset({"x"})), above=0))
        await server.until(lambda: len(server.log) > asked + 2)
        server.fails = None
        async with asyncio.timeout(60):
            await telling
        task.cancel()
    assert server.annotations["outrider.dev/watch-namespaces"] == "x"


async def test_a_claim_and_a_renewal_do_not_get_in_each_others_way() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        for number in range(20):
            async with asyncio.timeout(60):
                await leadership.publish(Claim(frozenset({str(number)})), above=0)
        await server.until(lambda: server.log.count("PUT") > 40)
        leadership.check()
        task.cancel()
    assert "GET" not in server.log[2:], "nobody had to look whose the Lease is"


async def test_a_candidate_takes_a_lease_that_has_run_out_without_waiting_for_its_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hurry(monkeypatch, lasts=1, retry=3600)
    server = LeaseServer()
    async with a_lease_server(server) as api:
        died, task = await elect(api)
        task.cancel()
        leadership, task = await elect(api)
        task.cancel()
    assert leadership.term > died.term


async def test_a_published_term_is_larger_than_the_one_it_has_to_outbid() -> None:
    async with a_lease_server(LeaseServer()) as api:
        leadership, task = await elect(api)
        before = leadership.term
        async with asyncio.timeout(60):
            await leadership.publish(leadership.claim, above=before)
        task.cancel()
    assert leadership.term == before + 1


async def test_a_term_is_in_use_only_when_it_is_stored() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        leadership, task = await elect(api)
        server.works.clear()
        before, raised = leadership.term, asyncio.create_task(leadership.publish(Claim(), above=2**40))
        await server.until(lambda: server.log[-1] == "PUT")
        assert leadership.term == before

        server.works.set()
        async with asyncio.timeout(30):
            await raised
        task.cancel()
    assert leadership.term == 2**40 + 1
    assert server.annotations["outrider.dev/term"] == str(2**40 + 1)


async def test_a_raised_term_outlives_its_leader() -> None:
    server = LeaseServer()
    async with a_lease_server(server) as api:
        first, task = await elect(api)
        async with asyncio.timeout(30):
            await first.publish(Claim(), above=2**40)
        task.cancel()
        await first.release()
        second, task = await elect(api)
        task.cancel()
    assert second.term > first.term


async def test_a_sole_operator_that_restarts_has_a_larger_term() -> None:
    assert Sole(started_at=1000.0).term < Sole(started_at=1001.0).term


async def test_a_sole_operator_leads_at_once_and_for_ever() -> None:
    sole = Sole(started_at=1000.0)
    await sole.elected()
    sole.check()
    assert sole.in_touch
    for endless in (sole.run(), sole.lost()):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(endless, 0.01)


class Page(LeaseServer):
    """A proxy that answers in place of the API server."""

    async def __call__(self, request: web.Request) -> web.Response:  # noqa: ARG002
        return web.Response(text="<html>busy</html>", content_type="text/html")


async def test_a_page_of_a_proxy_in_place_of_the_lease_ends_no_process() -> None:
    async with a_lease_server(Page()) as api:
        lock, record = a_lock(api)
        found, _ = await lock.get("outrider", "default")
        assert not found
        assert not await lock.create("outrider", "default", record)
