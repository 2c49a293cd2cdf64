"""The Lease as a lock of the election library, with the term and the claim of its holder.

A renewal is one request: the answer to the last one contains the version that it replaces. A request that
hangs counts as failed, and no request lasts longer than the Lease. A renewal that meets another version of
the Lease reads the Lease immediately.

The library compares the time of day to see whether another Lease has expired. This class uses the monotonic
clock instead. So a clock change takes no Lease from a live leader, and keeps none for a dead one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient, ApiException, V1Lease, V1LeaseSpec, V1ObjectMeta
from kubernetes.aio.leaderelection.leaderelectionrecord import LeaderElectionRecord
from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

from outrider.cluster.installation import SINCE_ANNOTATION, TERM_ANNOTATION, Claim, term_of
from outrider.cluster.objects import version_number

log = logging.getLogger(__name__)

LEASE_SECONDS = 15
RETRY_SECONDS = 2
"""Interval between two reads of the Lease, and between two renewals."""
REQUEST_SECONDS = 6.0
"""Timeout of one request."""
_NO_ANSWER = (aiohttp.ClientError, OSError, ValueError)
"""A TimeoutError is an OSError. What the library cannot parse, such as a page of a proxy, is a ValueError."""


class Turn:
    """The turn of several locks of one process, of which one at most takes its Lease."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.taken_by: TermLock | None = None


_Found = tuple[bool, LeaderElectionRecord] | tuple[bool, Exception] | tuple[bool, None]


class LeadershipLost(Exception):
    """The term is over: another process holds the Lease, or it expired while this process was paused."""


class _Changed(Exception):
    """The Lease has another version than the one to replace."""


class TermLock(LeaseLock):
    """One candidate's lock on the Lease, for one term.

    term: 0 before the election. renewed_at, answered_at: of the monotonic clock, None for never.
    since: resource version of the write that took the Lease, None before. Versions order the writes of all
    Leases, so of two processes both know which one was first.
    clock: unix seconds; a term is at least the time at which it began. turn: by default, of this lock alone.
    """

    def __init__(
        self,
        name: str,
        namespace: str,
        identity: str,
        api: ApiClient,
        claim: Claim,
        *,
        clock: Callable[[], float] = time.time,
        request_seconds: float = REQUEST_SECONDS,
        turn: Turn | None = None,
    ) -> None:
        self._request_seconds = request_seconds
        self._turn = turn or Turn()
        self.since: int | None = None
        super().__init__(name, namespace, identity, api)
        self._clock = clock
        self.term = 0
        self.renewed_at: float | None = None
        self.answered_at: float | None = None
        self._claim = claim
        self._least_term = 0
        self._asking = asyncio.Lock()
        self._written = asyncio.Condition()
        self._published: tuple[Claim, int | None] | None = None
        self._current = False
        self._complaint = ""
        self._seen = ("", 0.0)
        """Resource version of another holder's Lease, and when this process first saw it."""

    async def publish(self, claim: Claim, *, above: int) -> None:
        """Return once the Lease states this claim and a term above ``above``.

        The lock writes the Lease immediately. If that fails, the next renewal writes the claim.
        """
        self._claim, self._least_term = claim, max(self._least_term, above + 1)
        if not self._told(claim, above):
            # If another process holds the Lease, the library notices at its next renewal.
            with suppress(LeadershipLost):
                await self._renew()
        async with self._written:
            await self._written.wait_for(lambda: self._told(claim, above))

    def _told(self, claim: Claim, above: int) -> bool:
        return self._published == (claim, self.since) and self.since is not None and self.term > above

    async def _renew(self) -> None:
        async with self._asking:
            if self._current and self.lease_reference is not None:
                await self._replace(self.name, self.namespace, self.election_record(self.lease_reference))

    async def get(self, name: str, namespace: str) -> _Found:
        """Return the record, from the answer to the last write if there is one.

        Raises:
            LeadershipLost: another process holds the Lease that this one held, or may hold it.
        """
        if self._overslept():
            self.renewed_at = None
            raise LeadershipLost
        async with self._asking:
            if self._current and self.lease_reference is not None:
                return True, self.election_record(self.lease_reference)
            found = await self._look(name, namespace)
            left = self._runs_out_in()
            if left is not None and 0 < left < RETRY_SECONDS:
                # The next read would come after the end of that Lease.
                await asyncio.sleep(left)
                found = await self._look(name, namespace)
            # Without a record the library takes the Lease and does not compare clocks.
            return (True, None) if found[0] and self._ran_out() else found

    async def _look(self, name: str, namespace: str) -> _Found:
        try:
            async with asyncio.timeout(self._patience()):
                found: _Found = await super().get(name, namespace)
        except _NO_ANSWER as error:
            return False, ApiException(reason=f"{type(error).__name__}: {error}")
        self.answered_at = time.monotonic()
        if isinstance(found[1], ApiException) and found[1].status != HTTPStatus.NOT_FOUND:
            self._complain(found[1])
        if self.term and found[0] and not self._held():
            self.renewed_at = None
            raise LeadershipLost
        return found

    async def create(self, name: str, namespace: str, election_record: LeaderElectionRecord) -> bool:
        """Create the Lease; return False if that failed."""
        term = max(self.term, self._least_term, int(self._clock()))
        metadata = V1ObjectMeta(name=name, annotations=self._annotations(term))
        lease = V1Lease(metadata=metadata, spec=self._renewed(V1LeaseSpec(), election_record))
        # The library's own create passes a flag that its generated client refuses (37.0.2).
        return await self._hold(self.api_instance.create_namespaced_lease(namespace, lease))

    async def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        """Take or renew the Lease; return False if that failed.

        Raises:
            LeadershipLost: another process holds the Lease that this one held.
        """
        async with self._asking:
            return await self._replace(name, namespace, updated_record)

    async def _replace(self, name: str, namespace: str, record: LeaderElectionRecord) -> bool:
        lease = self.lease_reference
        if lease is None or lease.metadata is None or lease.spec is None or self._lives():
            return False
        taken, before = not self._held(), _term(lease)
        lease.spec = self._renewed(lease.spec, record)
        began = int(self._clock()) if taken else 0
        term = max(_term(lease), before + taken, self._least_term, began)
        kept = lease.metadata.annotations or {}
        lease.metadata.annotations = {**kept, **self._annotations(term)}
        return await self._hold(self.api_instance.replace_namespaced_lease(name, namespace, lease))

    async def release(self) -> None:
        """Release the Lease, so that the next leader need not wait until it expires."""
        self._current, self.renewed_at = False, None
        try:
            found, _ = await self.get(self.name, self.namespace)
        except LeadershipLost:
            return
        lease = self.lease_reference
        if found and lease is not None and lease.spec is not None and self._held():
            lease.spec.holder_identity = None
            with suppress(_Changed):
                await self._answer(
                    self.api_instance.replace_namespaced_lease(self.name, self.namespace, lease)
                )

    def _annotations(self, term: int) -> dict[str, str]:
        since = "" if self.since is None else str(self.since)
        return {**self._claim.annotations(), TERM_ANNOTATION: str(term), SINCE_ANNOTATION: since}

    def _renewed(self, before: V1LeaseSpec, record: LeaderElectionRecord) -> V1LeaseSpec:
        # The record has local times, and the library writes them as if they were UTC.
        now = _now()
        taken = before.holder_identity != record.holder_identity
        return V1LeaseSpec(
            holder_identity=record.holder_identity,
            lease_duration_seconds=LEASE_SECONDS,
            acquire_time=now if taken else before.acquire_time,
            renew_time=now,
            lease_transitions=(before.lease_transitions or 0) + taken,
        )

    async def _hold(self, request: Coroutine[Any, Any, V1Lease]) -> bool:
        if self.since is not None:
            return await self._write(request)
        async with self._turn.lock:
            if self._turn.taken_by is not None:
                request.close()
                return False
            held = await self._write(request)
            self._turn.taken_by = self if held else None
            return held

    async def _write(self, request: Awaitable[V1Lease]) -> bool:
        asked_at, states = time.monotonic(), (self._claim, self.since)
        self._current = False
        try:
            lease = await self._answer(request)
        except _Changed:
            if self.term:
                await self._look(self.name, self.namespace)
            return False
        if lease is None:
            return False
        self._current = True
        async with self._written:
            self.lease_reference, self._published = lease, states
            self.term, self.renewed_at = _term(lease), asked_at
            if self.since is None:
                self.since = _version(lease)
            self._written.notify_all()
        return True

    async def _answer(self, request: Awaitable[V1Lease]) -> V1Lease | None:
        try:
            async with asyncio.timeout(self._patience()):
                lease = await request
        except ApiException as error:
            if error.status == HTTPStatus.CONFLICT:
                raise _Changed from error
            self._complain(error)
            return None
        except _NO_ANSWER:
            return None
        self.answered_at, self._complaint = time.monotonic(), ""
        return lease

    def _complain(self, error: ApiException) -> None:
        """Log the API server's message once; the library logs failed writes without their cause."""
        complaint = _message(error)
        if complaint != self._complaint:
            log.warning("cannot write Lease %s/%s: %s", self.namespace, self.name, complaint)
        self._complaint = complaint

    def _held(self) -> bool:
        spec = self.lease_reference.spec if self.lease_reference else None
        return spec is not None and spec.holder_identity == self.identity

    def _overslept(self) -> bool:
        """Return True if this process held the Lease and it has expired, so no renewal has time left."""
        return self.renewed_at is not None and time.monotonic() - self.renewed_at > LEASE_SECONDS

    def _lives(self) -> bool:
        """Return True if another process holds the Lease and may have renewed it within its duration."""
        return self._held_by_another() and not self._ran_out()

    def _ran_out(self) -> bool:
        """Return True if another process holds the Lease and has not renewed it within its duration."""
        left = self._runs_out_in()
        return left is not None and left <= 0

    def _runs_out_in(self) -> float | None:
        """Return the seconds until another holder's Lease expires; None if no other process holds it."""
        lease, now = self.lease_reference, time.monotonic()
        if lease is None or lease.metadata is None or not self._held_by_another():
            return None
        version = lease.metadata.resource_version or ""
        if version != self._seen[0]:
            self._seen = version, now
        return self._seen[1] + LEASE_SECONDS - now

    def _held_by_another(self) -> bool:
        spec = self.lease_reference.spec if self.lease_reference else None
        return spec is not None and bool(spec.holder_identity) and not self._held()

    def _patience(self) -> float:
        """Return the timeout of one request in seconds; a leader must not wait longer than it leads."""
        if self.renewed_at is None:
            return self._request_seconds
        return max(0.0, min(self._request_seconds, self.renewed_at + LEASE_SECONDS - time.monotonic()))


def _term(lease: V1Lease) -> int:
    metadata, spec = lease.metadata, lease.spec
    if metadata is None or spec is None or metadata.creation_timestamp is None:
        raise RuntimeError("the API server returned a Lease without a creation timestamp")
    return term_of(metadata.creation_timestamp, spec.lease_transitions or 0, metadata.annotations or {})


def _version(lease: V1Lease) -> int:
    text = (lease.metadata.resource_version if lease.metadata else None) or ""
    version = version_number(text)
    if version is None:
        raise RuntimeError(f"the API server returned a Lease with the resource version {text!r}, no number")
    return version


def _message(error: ApiException) -> str:
    try:
        return str(json.loads(error.body or "")["message"])
    except (ValueError, TypeError, KeyError):
        return f"HTTP {error.status} {error.reason}"


def _now() -> datetime:
    """Return the time, never a whole second: the client would omit the fraction that the API server needs."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond or 1)
