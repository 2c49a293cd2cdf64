"""Leader election on a Lease, and the term that fences every push.

The library elects; two things are added. Changes of holder are counted, and the term is that
count on top of the Lease's time of creation: a newer leader always has a larger one, even when
somebody deleted the Lease in between, since leaders change more slowly than once a second. And a
request that hangs counts as a failed renewal, so that a leader that is cut off steps down in time.
"""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from collections.abc import Awaitable
from dataclasses import dataclass

import aiohttp
from kubernetes.aio.client import ApiClient, ApiException, V1Lease, V1LeaseSpec, V1ObjectMeta
from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelection import LeaderElection
from kubernetes.aio.leaderelection.leaderelectionrecord import LeaderElectionRecord
from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

LEASE_SECONDS = 15
RENEW_DEADLINE_SECONDS = 10
RETRY_SECONDS = 2
_REQUEST_SECONDS = 4


_Found = tuple[bool, LeaderElectionRecord] | tuple[bool, Exception] | tuple[bool, None]


class NotLeader(Exception):
    """This process may not write any more: its Lease has run out or was lost."""


class _TermLock(LeaseLock):
    def __init__(self, name: str, namespace: str, identity: str, api: ApiClient) -> None:
        super().__init__(name, namespace, identity, api)
        self.term = 0
        self.renewed_at: float | None = None
        self.read_at: float | None = None

    async def get(self, name: str, namespace: str) -> _Found:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                found = await super().get(name, namespace)
                self.read_at = time.monotonic()
                return found
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return False, ApiException(status=0, reason=f"{type(error).__name__}: {error}")

    async def create(self, name: str, namespace: str, election_record: LeaderElectionRecord) -> bool:
        asked_at = time.monotonic()
        if not await self._write(self._create(name, namespace, election_record)):
            return False
        self.term, self.renewed_at = self._term(), asked_at
        return True

    async def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        asked_at = time.monotonic()
        if not await self._write(super().update(name, namespace, updated_record)):
            return False
        self.term, self.renewed_at = self._term(), asked_at
        return True

    async def release(self) -> None:
        """Give the Lease back, so that the next leader need not wait for it to run out."""
        held, _ = await self.get(self.name, self.namespace)
        lease, spec = self.lease_reference, self._spec()
        if held and lease is not None and spec is not None and spec.holder_identity == self.identity:
            spec.holder_identity = None
            await self._write(self._replace(lease))

    def _term(self) -> int:
        lease, spec = self.lease_reference, self._spec()
        if (
            lease is None
            or spec is None
            or lease.metadata is None
            or lease.metadata.creation_timestamp is None
        ):
            raise RuntimeError("the API server answered a Lease without its time of creation")
        return int(lease.metadata.creation_timestamp.timestamp()) + (spec.lease_transitions or 0)

    def _spec(self) -> V1LeaseSpec | None:
        return self.lease_reference.spec if self.lease_reference else None

    async def _create(self, name: str, namespace: str, record: LeaderElectionRecord) -> bool:
        # The library's own create passes a flag that its generated client refuses (37.0.2).
        lease = V1Lease(metadata=V1ObjectMeta(name=name), spec=self.update_lease(record))
        self.lease_reference = await self.api_instance.create_namespaced_lease(namespace, lease)
        return True

    async def _replace(self, lease: V1Lease) -> bool:
        await self.api_instance.replace_namespaced_lease(self.name, self.namespace, lease)
        return True

    async def _write(self, request: Awaitable[bool]) -> bool:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                return await request
        except (ApiException, aiohttp.ClientError, TimeoutError, OSError):
            return False

    def update_lease(
        self, leader_election_record: LeaderElectionRecord, current_spec: V1LeaseSpec | None = None
    ) -> V1LeaseSpec:
        holder = current_spec.holder_identity if current_spec else None
        spec: V1LeaseSpec = super().update_lease(leader_election_record, current_spec)
        if holder != self.identity:
            spec.lease_transitions = (spec.lease_transitions or 0) + 1
        return spec


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Which Lease object decides who leads."""

    namespace: str
    name: str = "outrider"


class Leadership:
    """One candidate. Its identity is new in each process, so each new leader has a new term."""

    def __init__(self, api: ApiClient, lease: LeaseName) -> None:
        self.identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self._lock = _TermLock(lease.name, lease.namespace, self.identity, api)
        self._elected = asyncio.Event()
        self._lost = asyncio.Event()

    @property
    def term(self) -> int:
        """The number of this leader's reign; 0 before the election."""
        return self._lock.term

    @property
    def in_touch(self) -> bool:
        """The API server answered a question about the Lease not long ago."""
        read_at = self._lock.read_at
        return read_at is not None and time.monotonic() - read_at < LEASE_SECONDS

    async def run(self) -> None:
        """Take part in elections until leadership is lost; run as a task."""
        config = Config(
            self._lock,
            lease_duration=LEASE_SECONDS,
            renew_deadline=RENEW_DEADLINE_SECONDS,
            retry_period=RETRY_SECONDS,
            onstarted_leading=self._on_elected,
            onstopped_leading=self._on_lost,
        )
        await LeaderElection(config).run()

    async def elected(self) -> None:
        """Return once this process leads."""
        await self._elected.wait()

    async def lost(self) -> None:
        """Return once this process leads no more."""
        await self._lost.wait()

    def check(self) -> None:
        """Raise `NotLeader` unless the Lease certainly still holds, even after a long pause."""
        renewed_at = self._lock.renewed_at
        if self._lost.is_set() or renewed_at is None or time.monotonic() - renewed_at > LEASE_SECONDS:
            raise NotLeader("the Lease has run out")

    async def release(self) -> None:
        """Give the Lease back at the end of a clean stop."""
        self._lost.set()
        await self._lock.release()

    async def _on_elected(self) -> None:
        self._elected.set()

    async def _on_lost(self) -> None:
        self._lost.set()


class Sole:
    """Stands in for `Leadership` where leader election is off: always leads.

    The term is the start time in unix seconds, so a restarted operator has a larger one.
    """

    def __init__(self, started_at: float) -> None:
        self.identity = socket.gethostname()
        self.term = int(started_at)
        self.in_touch = True

    async def run(self) -> None:
        """Nothing to renew."""
        await asyncio.Event().wait()

    async def elected(self) -> None:
        """At once."""

    async def lost(self) -> None:
        """Never."""
        await asyncio.Event().wait()

    def check(self) -> None:
        """Never raises."""

    async def release(self) -> None:
        """Nothing to give back."""
