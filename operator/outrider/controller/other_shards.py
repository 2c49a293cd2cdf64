"""Processes with another number of shards: while the number changes, the older one keeps its models.

A process takes its Lease, states in it the resource version of that write, and then reads the Leases of its
namespace. It leaves alone the models of every living process with another number that took its Lease
earlier. Resource versions order all writes, so of two such processes the later one sees the earlier one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError, Refused
from outrider.cluster.installation import Installation
from outrider.cluster.lease import LEASE_NAME, LeadershipElsewhere
from outrider.cluster.resources import LEASES
from outrider.cluster.shards import Shard
from outrider.controller.sightings import Sightings, plausible
from outrider.controller.stored import Key

log = logging.getLogger(__name__)

_SKEW = timedelta(seconds=60)
"""Difference of two clocks up to which a Lease that is seen for the first time counts as held."""


class OtherShards:
    """The Leases of this process's own namespace, read again and again."""

    def __init__(self, cluster: ClusterClient, leadership: LeadershipElsewhere) -> None:
        self._cluster = cluster
        self._leadership = leadership
        self._sightings = Sightings(slack=_SKEW)
        self._elders: tuple[Installation, ...] = ()
        self._outbid = 0
        self._looked = False
        self.highest_term = 0
        """Highest term in the other Leases of this namespace."""

    @property
    def kept(self) -> tuple[Shard, ...]:
        """The shards of processes with another number that keep their models."""
        return tuple(each.claim.shard for each in self._elders)

    def manages(self, key: Key) -> bool:
        """Whether no process with another number of shards keeps this model."""
        return not any(each.claim.shard.owns(*key) for each in self._elders)

    async def look(self) -> None:
        """Read once. After the first time, this process may manage what `manages` allows.

        Raises:
            ClusterError: the Leases were not read, or the list is older than the last write.
        """
        # In this order: of two processes that both wrote before they read, the later one sees the earlier.
        await self._leadership.publish(self._leadership.claim, above=self._outbid)
        try:
            listed, _ = await self._cluster.list_through(
                LEASES, self._leadership.lease.namespace, Installation.read
            )
        except Refused as error:
            if self._leadership.shard.of > 1:
                raise
            self._without_right(error)
            return
        ours = [each for each in listed if _is_of_a_shard(each.lease)]
        own = next((each for each in ours if each.lease == self._leadership.lease.name), None)
        if own is not None and own.holder:
            self._leadership.saw(own.holder)
        if own is None or own.holder != self._leadership.identity or own.since is None:
            raise NotListed("the list does not have this leader's last write to its own Lease")
        await self._settle(own, [each for each in ours if each is not own])

    async def _settle(self, own: Installation, others: Sequence[Installation]) -> None:
        alive = self._sightings.alive(others, at=time.monotonic(), now=datetime.now(UTC))
        elders = tuple(each for each in alive if self._is_elder(each, own))
        # Engines refuse a term below one that they saw, and a model may come from any of them.
        counted = plausible(others, now=time.time())
        terms = [each.term for each in counted if not self._looked or each in elders]
        self._outbid = max([self._outbid, *terms])
        self.highest_term = max((each.term for each in counted), default=0)
        await self._leadership.publish(self._leadership.claim, above=self._outbid)
        self._log_changes(elders)
        self._elders, self._looked = elders, True

    def _is_elder(self, other: Installation, own: Installation) -> bool:
        if other.claim.shard.of == own.claim.shard.of:
            return False
        if other.since is None or own.since is None:
            # An older release, or a process that took its Lease a moment ago: after this one's first look.
            return not self._looked or other.holder in {each.holder for each in self._elders}
        return other.since < own.since

    def _log_changes(self, elders: Sequence[Installation]) -> None:
        before, now = {str(each) for each in self.kept}, {str(each.claim.shard) for each in elders}
        for shard in sorted(now - before):
            log.warning(
                "shard %s leaves models alone that the process of shard %s manages, until that one ends",
                self._leadership.shard,
                shard,
            )
        for shard in sorted(before - now):
            log.info("the process of shard %s ended; shard %s takes over", shard, self._leadership.shard)

    def _without_right(self, error: Refused) -> None:
        if not self._looked:
            log.warning(
                "RBAC forbids this process to list the Leases of its namespace. So it does not see processes"
                " with another number of shards. To change it, upgrade the chart's roles: %s",
                error.message,
            )
        self._looked = True


class NotListed(ClusterError):
    """A list that is older than the last write; the next one has it."""


def _is_of_a_shard(lease: str) -> bool:
    rest = lease.removeprefix(LEASE_NAME)
    return lease == LEASE_NAME or (rest[:1] == "-" and rest[1:].isdecimal())
