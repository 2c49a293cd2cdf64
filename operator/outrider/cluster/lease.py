"""Leader election on a Lease, and the term that fences every push.

The library elects; two things are added. Each reign has a term: one more than the one before, and
never below the time of day at which the reign began. So a newer leader always has a larger one, also
after a time without elections, or when somebody deleted the Lease in between, since leaders change
more slowly than once a second. And whoever has led and lost never leads again: another reign takes a
new candidate.

The election runs on a thread of its own, so that nothing that a leader does can delay a renewal.
"""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from kubernetes.aio.client import ApiClient
from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelection import LeaderElection

from outrider.cluster.installation import Claim
from outrider.cluster.term_lock import LEASE_SECONDS, RETRY_SECONDS, Deposed, TermLock
from outrider.loop_thread import LoopThread

LEASE_NAME = "outrider"
RENEW_DEADLINE_SECONDS = 10


class NotLeader(Exception):
    """This process may not write any more: its Lease has run out or was lost."""


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Which Lease object decides who leads."""

    namespace: str
    name: str = LEASE_NAME


class Leadership:
    """One candidate, for one reign. Its identity is new, so each reign has a larger term.

    What is not a coroutine may be asked from any thread.

    claim: what the Lease tells other installations. clock: unix seconds.
    """

    def __init__(
        self,
        api: ApiClient,
        lease: LeaseName,
        *,
        claim: Claim | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self.lease = lease
        self.claim = claim or Claim()
        self._lock = TermLock(lease.name, lease.namespace, self.identity, api, self.claim, clock=clock)
        self._elected = asyncio.Event()
        self._lost = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._over = False
        """Set at once where `_lost` waits for a turn of its loop."""

    @property
    def term(self) -> int:
        """The number of this leader's reign; 0 before the election. `publish` can make it rise."""
        return self._lock.term

    @property
    def in_touch(self) -> bool:
        """The API server answered a question about the Lease not long ago."""
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
        except Deposed:
            self.lose()

    async def elected(self) -> None:
        """Return once this process leads."""
        await self._elected.wait()

    async def lost(self) -> None:
        """Return once this process leads no more."""
        await self._lost.wait()

    async def publish(self, claim: Claim, *, above: int) -> None:
        """Return once the Lease tells this claim and this leader's term is larger than ``above``.

        The term is in use only when it is stored.
        """
        self.claim = claim
        await self._lock.publish(claim, above=above)

    def fence(self) -> None:
        """From now on nothing may be written."""
        self._over = True

    def lose(self) -> None:
        """End this reign; only on the loop of the coroutines."""
        self.fence()
        self._lost.set()

    def check(self) -> None:
        """Raise `NotLeader` unless the Lease certainly still holds, even after a long pause."""
        renewed_at = self._lock.renewed_at
        if self._over or renewed_at is None or time.monotonic() - renewed_at > LEASE_SECONDS:
            raise NotLeader("the Lease has run out")

    async def release(self) -> None:
        """Give the Lease back at the end of a reign, once no renewal is under way."""
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
    """A `Leadership` whose coroutines run on another thread, for the loop that does the work.

    Each method that waits raises ``ThreadEnded`` when that thread has ended.
    """

    def __init__(self, leadership: Leadership, thread: LoopThread) -> None:
        self._leadership = leadership
        self._thread = thread
        self.identity = leadership.identity
        self.lease = leadership.lease

    @property
    def claim(self) -> Claim:
        """What the Lease says to other installations."""
        return self._leadership.claim

    @property
    def term(self) -> int:
        """See `Leadership.term`."""
        return self._leadership.term

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
        """Take note of who holds the Lease: another one's name ends this reign at once."""
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
    """Stands in for `Leadership` where leader election is off: always leads.

    The term is the start time in unix seconds, so a restarted operator has a larger one, and so has
    whoever is elected later.
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
