"""The election of a process to any shard that has no leader."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from outrider.cluster.installation import Claim
from outrider.cluster.lease import Leadership, LeaseName


class ShardElection:
    """One candidate for the Leases of all shards. It leads the first one that it gets, for one term.

    The methods are those of `Leadership`. Its candidates share a turn, so they take one Lease at most.

    candidates: one per shard.
    """

    def __init__(self, candidates: Sequence[Leadership]) -> None:
        self._candidates = tuple(candidates)
        self._winner: Leadership | None = None
        self._elected = asyncio.Event()

    @property
    def _shown(self) -> Leadership:
        return self._winner or self._candidates[0]

    @property
    def identity(self) -> str:
        """Name of the candidate that leads, or of the first one."""
        return self._shown.identity

    @property
    def lease(self) -> LeaseName:
        """The Lease of the shard that this process leads."""
        return self._shown.lease

    @property
    def claim(self) -> Claim:
        """See `Leadership.claim`."""
        return self._shown.claim

    @property
    def term(self) -> int:
        """See `Leadership.term`."""
        return 0 if self._winner is None else self._winner.term

    @property
    def since(self) -> int | None:
        """See `Leadership.since`."""
        return None if self._winner is None else self._winner.since

    @property
    def leads(self) -> bool:
        """See `Leadership.leads`."""
        return self._winner is not None and self._winner.leads

    @property
    def in_touch(self) -> bool:
        """See `Leadership.in_touch`."""
        return any(each.in_touch for each in self._candidates)

    async def run(self) -> None:
        """Take part in all elections until one is won, and in that one until leadership is lost."""
        running = {asyncio.create_task(each.run()): each for each in self._candidates}
        elected = {asyncio.create_task(each.elected()): each for each in self._candidates}
        try:
            done, _ = await asyncio.wait({*running, *elected}, return_when=asyncio.FIRST_COMPLETED)
            for task in done & running.keys():
                task.result()
            winner = next((elected[task] for task in done if task in elected), None)
            if winner is None:
                return
            others = [task for task, each in running.items() if each is not winner]
            await _cancelled(others)
            self._winner = winner
            self._elected.set()
            await asyncio.wait([task for task, each in running.items() if each is winner])
        finally:
            await _cancelled([*running, *elected])
        for task in running:
            if not task.cancelled():
                task.result()

    async def elected(self) -> None:
        """Return once this process leads a shard."""
        await self._elected.wait()

    async def lost(self) -> None:
        """Return once this process no longer leads."""
        waits = [asyncio.create_task(each.lost()) for each in self._candidates]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled(waits)

    async def publish(self, claim: Claim, *, above: int) -> None:
        """See `Leadership.publish`."""
        await self._shown.publish(claim, above=above)

    def fence(self) -> None:
        """Forbid all further writes."""
        for each in self._candidates:
            each.fence()

    def lose(self) -> None:
        """End this term. Call it only on the event loop of the coroutines."""
        for each in self._candidates:
            each.lose()

    def check(self) -> None:
        """See `Leadership.check`."""
        self._shown.check()

    async def release(self) -> None:
        """Release the Lease at the end of a term."""
        self.lose()
        if self._winner is not None:
            await self._winner.release()


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
