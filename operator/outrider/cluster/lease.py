"""Leader election on a Lease, and the leadership term that fences every push.

The library elects; this module adds two properties:

- Terms rise. A term is the previous one plus 1, and at least the unix time at which it began. So a newer
  leader has a larger term, even if the Lease was deleted in between. This assumes that leaders change less
  often than once a second.
- A candidate that lost leadership never leads again. Another term needs a new candidate.

The election runs on its own thread, so the leader's work cannot delay a renewal.
"""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubernetes.aio.client import ApiClient
from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelection import LeaderElection

from outrider.cluster.installation import Claim
from outrider.cluster.shards import Shard
from outrider.cluster.term_lock import (
    LEASE_SECONDS,
    REQUEST_SECONDS,
    RETRY_SECONDS,
    LeadershipLost,
    TermLock,
    Turn,
)
from outrider.loop_thread import LoopThread

if TYPE_CHECKING:
    from outrider.cluster.shard_election import ShardElection

LEASE_NAME = "outrider"
RENEW_DEADLINE_SECONDS = 10


class NotLeader(Exception):
    """This process may no longer write: its Lease expired or was lost."""


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Name of the Lease object that decides which process leads."""

    namespace: str
    name: str = LEASE_NAME


class Leadership:
    """One candidate for one term. Each candidate has a new identity, so each term is larger.

    Any thread may call the methods that are not coroutines.

    claim: what the Lease says to other installations. clock: unix seconds.
    request_seconds: timeout of one request. turn: of candidates of which one at most may lead.
    """

    def __init__(
        self,
        api: ApiClient,
        lease: LeaseName,
        *,
        claim: Claim | None = None,
        clock: Callable[[], float] = time.time,
        request_seconds: float = REQUEST_SECONDS,
        turn: Turn | None = None,
    ) -> None:
        self.identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self.lease = lease
        self.claim = claim or Claim()
        self._lock = TermLock(
            lease.name,
            lease.namespace,
            self.identity,
            api,
            self.claim,
            clock=clock,
            request_seconds=request_seconds,
            turn=turn,
        )
        self._elected = asyncio.Event()
        self._lost = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._over = False
        """Set immediately from any thread, while `_lost` waits for its event loop."""

    @property
    def term(self) -> int:
        """Leadership term; 0 before the election. `publish` can raise it."""
        return self._lock.term

    @property
    def in_touch(self) -> bool:
        """True if the API server answered a request about the Lease within its duration."""
        answered_at = self._lock.answered_at
        return answered_at is not None and time.monotonic() - answered_at < LEASE_SECONDS

    async def run(self) -> None:
        """Take part in elections until leadership is lost; run as a task."""
        self._running = asyncio.current_task()
        config = Config(
            self._lock,
            lease_duration=LEASE_SECONDS,
            renew_deadline=RENEW_DEADLINE_SECONDS,
            retry_period=RETRY_SECONDS,
            onstarted_leading=self._on_elected,
            onstopped_leading=self._on_lost,
        )
        try:
            await LeaderElection(config).run()
        except LeadershipLost:
            self.lose()

    async def elected(self) -> None:
        """Return once this process leads."""
        await self._elected.wait()

    async def lost(self) -> None:
        """Return once this process no longer leads."""
        await self._lost.wait()

    async def publish(self, claim: Claim, *, above: int) -> None:
        """Return once the Lease states this claim and `since`, and the term is larger than ``above``.

        A term is in use only after the Lease stores it.
        """
        self.claim = claim
        await self._lock.publish(claim, above=above)

    def fence(self) -> None:
        """Forbid all further writes."""
        self._over = True

    def lose(self) -> None:
        """End this term. Call it only on the event loop of the coroutines."""
        self.fence()
        self._lost.set()

    @property
    def since(self) -> int | None:
        """Resource version at which this process took the Lease; None before the election."""
        return self._lock.since

    @property
    def leads(self) -> bool:
        """True if the Lease is certainly still valid, even after a long pause."""
        renewed_at = self._lock.renewed_at
        return not self._over and renewed_at is not None and time.monotonic() - renewed_at <= LEASE_SECONDS

    def check(self) -> None:
        """Raise `NotLeader` unless this process leads."""
        if not self.leads:
            raise NotLeader("the Lease has expired")

    async def release(self) -> None:
        """Release the Lease at the end of a term, once no renewal is in progress."""
        self.lose()
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.wait([self._running])
        await self._lock.release()

    async def _on_elected(self) -> None:
        self._elected.set()

    async def _on_lost(self) -> None:
        self.lose()


class LeadershipElsewhere:
    """A `Leadership` whose coroutines run on another thread, for use on the main loop.

    Each method that waits raises ``ThreadEnded`` if that thread has ended.
    """

    def __init__(self, leadership: Leadership | ShardElection, thread: LoopThread) -> None:
        self._leadership = leadership
        self._thread = thread

    @property
    def identity(self) -> str:
        """Name of this candidate in the Lease."""
        return self._leadership.identity

    @property
    def lease(self) -> LeaseName:
        """The Lease of this candidate."""
        return self._leadership.lease

    @property
    def shard(self) -> Shard:
        """The shard that this process leads, from the election on."""
        return self._leadership.claim.shard

    @property
    def since(self) -> int | None:
        """See `Leadership.since`."""
        return self._leadership.since

    @property
    def claim(self) -> Claim:
        """What the Lease says to other installations."""
        return self._leadership.claim

    @property
    def term(self) -> int:
        """See `Leadership.term`."""
        return self._leadership.term

    @property
    def leads(self) -> bool:
        """See `Leadership.leads`."""
        return self._leadership.leads

    @property
    def in_touch(self) -> bool:
        """See `Leadership.in_touch`."""
        return self._leadership.in_touch

    async def run(self) -> None:
        """See `Leadership.run`."""
        await self._thread.run(self._leadership.run())

    async def elected(self) -> None:
        """See `Leadership.elected`."""
        await self._thread.run(self._leadership.elected())

    async def lost(self) -> None:
        """See `Leadership.lost`."""
        await self._thread.run(self._leadership.lost())

    async def publish(self, claim: Claim, *, above: int) -> None:
        """See `Leadership.publish`."""
        await self._thread.run(self._leadership.publish(claim, above=above))

    def saw(self, holder: str) -> None:
        """Record the holder of the Lease; another holder ends this term immediately."""
        if holder != self.identity:
            self._leadership.fence()
            self._thread.call(self._leadership.lose)

    def check(self) -> None:
        """See `Leadership.check`."""
        self._leadership.check()

    async def release(self) -> None:
        """See `Leadership.release`."""
        await self._thread.run(self._leadership.release())


class Sole:
    """Replacement of `Leadership` without leader election: it always leads.

    The term is the start time in unix seconds. So a restarted operator has a larger term, and so has a
    leader that is elected later.
    """

    def __init__(self, started_at: float) -> None:
        self.identity = socket.gethostname()
        self.term = int(started_at)
        self.in_touch = True
        self.leads = True
        self.shard = Shard()

    async def run(self) -> None:
        """Wait for ever: there is nothing to renew."""
        await asyncio.Event().wait()

    async def elected(self) -> None:
        """Return immediately."""

    async def lost(self) -> None:
        """Never return."""
        await asyncio.Event().wait()

    def check(self) -> None:
        """Never raise."""

    async def release(self) -> None:
        """Do nothing: there is no Lease."""
