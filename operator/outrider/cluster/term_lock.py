"""The Lease as a lock of the election library: it carries the term and tells what its holder watches.

A renewal is one request: the answer to the last one says which version it may replace. A request
that hangs counts as a failed one, and none lasts longer than the Lease itself. A renewal that meets
another version of the Lease looks at once whose it is.

The library tells by the time of day whether another's Lease has run out. Here that is told by a clock that
nobody sets, so a jump takes no Lease from a leader that lives, and leaves none with one that died.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus

import aiohttp
from kubernetes.aio.client import ApiClient, ApiException, V1Lease, V1LeaseSpec, V1ObjectMeta
from kubernetes.aio.leaderelection.leaderelectionrecord import LeaderElectionRecord
from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

from outrider.cluster.installation import TERM_ANNOTATION, Claim, term_of

log = logging.getLogger(__name__)

LEASE_SECONDS = 15
RETRY_SECONDS = 2
"""From one look at the Lease to the next, and from one renewal to the next."""
_REQUEST_SECONDS = 6.0
_NO_ANSWER = (aiohttp.ClientError, OSError)  # a TimeoutError is one of the latter

_Found = tuple[bool, LeaderElectionRecord] | tuple[bool, Exception] | tuple[bool, None]


class Deposed(Exception):
    """The reign is over: another one holds the Lease, or it ran out while this process was paused."""


class _Changed(Exception):
    """The Lease is not the version that was to be replaced."""


class TermLock(LeaseLock):
    """One candidate's hold on the Lease; it serves for one reign.

    term: 0 before the election. renewed_at, answered_at: of the monotonic clock, None for never.
    clock: unix seconds; no term is below the time at which its reign began.
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
    ) -> None:
        super().__init__(name, namespace, identity, api)
        self._clock = clock
        self.term = 0
        self.renewed_at: float | None = None
        self.answered_at: float | None = None
        self._claim = claim
        self._least_term = 0
        self._asking = asyncio.Lock()
        self._written = asyncio.Condition()
        self._published: Claim | None = None
        self._current = False
        self._complaint = ""
        self._seen = ("", 0.0)
        """Version of another's Lease, and since when this one has looked at it in vain for a newer one."""

    async def publish(self, claim: Claim, *, above: int) -> None:
        """Return once the Lease tells this claim and a term above ``above``.

        It is written at once. Where that fails, the next renewal tells it.
        """
        self._claim, self._least_term = claim, max(self._least_term, above + 1)
        if not self._told(claim, above):
            # Whoever holds the Lease by now: the library finds out with its next renewal.
            with suppress(Deposed):
                await self._renew()
        async with self._written:
            await self._written.wait_for(lambda: self._told(claim, above))

    def _told(self, claim: Claim, above: int) -> bool:
        return self._published == claim and self.term > above

    async def _renew(self) -> None:
        async with self._asking:
            if self._current and self.lease_reference is not None:
                await self._replace(self.name, self.namespace, self.election_record(self.lease_reference))

    async def get(self, name: str, namespace: str) -> _Found:
        """The record, without a request where the last write has told it.

        Raises:
            Deposed: another one holds the Lease that this one held, or may hold it.
        """
        if self._overslept():
            self.renewed_at = None
            raise Deposed
        async with self._asking:
            if self._current and self.lease_reference is not None:
                return True, self.election_record(self.lease_reference)
            found = await self._look(name, namespace)
            left = self._runs_out_in()
            if left is not None and 0 < left < RETRY_SECONDS:
                # The next look would come later than the end of that Lease.
                await asyncio.sleep(left)
                found = await self._look(name, namespace)
            # Without a record the library takes the Lease, whatever its own clock says.
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
            raise Deposed
        return found

    async def create(self, name: str, namespace: str, election_record: LeaderElectionRecord) -> bool:
        """Make the Lease; False where that failed."""
        term = max(self.term, self._least_term, int(self._clock()))
        metadata = V1ObjectMeta(name=name, annotations=self._annotations(term))
        lease = V1Lease(metadata=metadata, spec=self._renewed(V1LeaseSpec(), election_record))
        # The library's own create passes a flag that its generated client refuses (37.0.2).
        return await self._hold(self.api_instance.create_namespaced_lease(namespace, lease))

    async def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        """Take or renew the Lease; False where that failed.

        Raises:
            Deposed: another one holds the Lease that this one held.
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
        """Give the Lease back, so that the next leader need not wait for it to run out."""
        self._current, self.renewed_at = False, None
        try:
            found, _ = await self.get(self.name, self.namespace)
        except Deposed:
            return
        lease = self.lease_reference
        if found and lease is not None and lease.spec is not None and self._held():
            lease.spec.holder_identity = None
            with suppress(_Changed):
                await self._answer(
                    self.api_instance.replace_namespaced_lease(self.name, self.namespace, lease)
                )

    def _annotations(self, term: int) -> dict[str, str]:
        return {**self._claim.annotations(), TERM_ANNOTATION: str(term)}

    def _renewed(self, before: V1LeaseSpec, record: LeaderElectionRecord) -> V1LeaseSpec:
        # The record's times are of the machine's time zone, and the library writes them as if of UTC.
        now = _now()
        taken = before.holder_identity != record.holder_identity
        return V1LeaseSpec(
            holder_identity=record.holder_identity,
            lease_duration_seconds=LEASE_SECONDS,
            acquire_time=now if taken else before.acquire_time,
            renew_time=now,
            lease_transitions=(before.lease_transitions or 0) + taken,
        )

    async def _hold(self, request: Awaitable[V1Lease]) -> bool:
        asked_at, claim = time.monotonic(), self._claim
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
            self.lease_reference, self._published = lease, claim
            self.term, self.renewed_at = _term(lease), asked_at
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
        """Say what the API server said, once: the library tells that a write failed, and not why."""
        complaint = _message(error)
        if complaint != self._complaint:
            log.warning("Lease %s/%s not held: %s", self.namespace, self.name, complaint)
        self._complaint = complaint

    def _held(self) -> bool:
        spec = self.lease_reference.spec if self.lease_reference else None
        return spec is not None and spec.holder_identity == self.identity

    def _overslept(self) -> bool:
        """Whether the Lease that this one held has run out: no request that renews it has time left."""
        return self.renewed_at is not None and time.monotonic() - self.renewed_at > LEASE_SECONDS

    def _lives(self) -> bool:
        """Another one holds the Lease, and may have renewed it within the time that it lasts."""
        return self._held_by_another() and not self._ran_out()

    def _ran_out(self) -> bool:
        """Another one holds the Lease, and has not renewed it for as long as it lasts."""
        left = self._runs_out_in()
        return left is not None and left <= 0

    def _runs_out_in(self) -> float | None:
        """Seconds until another's Lease runs out, if it is not renewed; None where no other one holds it."""
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
        """Seconds for one request: a leader must not wait for longer than it leads."""
        if self.renewed_at is None:
            return _REQUEST_SECONDS
        return max(0.0, min(_REQUEST_SECONDS, self.renewed_at + LEASE_SECONDS - time.monotonic()))


def _term(lease: V1Lease) -> int:
    metadata, spec = lease.metadata, lease.spec
    if metadata is None or spec is None or metadata.creation_timestamp is None:
        raise RuntimeError("the API server answered a Lease without its time of creation")
    return term_of(metadata.creation_timestamp, spec.lease_transitions or 0, metadata.annotations or {})


def _message(error: ApiException) -> str:
    try:
        return str(json.loads(error.body or "")["message"])
    except (ValueError, TypeError, KeyError):
        return f"HTTP {error.status} {error.reason}"


def _now() -> datetime:
    """Never a whole second: the client would leave out the fraction, and the API server insists on it."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond or 1)
