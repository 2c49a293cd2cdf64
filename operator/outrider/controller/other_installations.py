"""Other installations of the operator: in namespaces that two watch, one manages the models.

The installation with the older leadership term manages them. The other one refuses these namespaces, says so
in its log and its metrics, and takes over when the first one is gone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError, Refused
from outrider.cluster.installation import Installation
from outrider.cluster.lease import LEASE_NAME, LeadershipElsewhere
from outrider.cluster.resources import LEASES
from outrider.cluster.reviews import Authority
from outrider.controller.other_shards import NotListed, OtherShards
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.sightings import Sightings, plausible
from outrider.controller.stored import Key
from outrider.controller.work_queue import backoff_seconds

log = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
_MARGIN_SECONDS = 60
"""Seconds above the present time that exceed every term: a term is a creation time plus leader changes."""


class Installations:
    """No other installation: without leader election there are no Leases to read."""

    def __init__(self) -> None:
        self.managers: Sequence[Installation] = ()
        """The installations that manage a namespace which this one watches, in their order."""

    def manages(self, key: Key) -> bool:
        """Whether this process manages a model that it watches."""
        return not any(other.claim.covers(key.namespace) for other in self.managers)

    async def first_look(self) -> None:
        """Return after the first successful read; before it nothing may be managed."""

    async def look_forever(self, changed: Callable[[], None], /) -> None:  # noqa: ARG002
        """Read until cancelled, and call back when other processes came, ended or changed their order."""
        await asyncio.Event().wait()


class OtherInstallations(Installations):
    """Reads the Leases of all installations, and those of other shards.

    The Lease of shard 1 stands for an installation. Without a holder, its other shards yield to everyone.

    This one writes its namespaces into its Lease before it reads the others. So of two that start together,
    the later one sees the earlier one.
    """

    def __init__(self, cluster: ClusterClient, leadership: LeadershipElsewhere, metrics: OwnMetrics) -> None:
        super().__init__()
        self._cluster = cluster
        self._leadership = leadership
        self._metrics = metrics
        self._authority = Authority(cluster)
        self._shards = OtherShards(cluster, leadership)
        self._sightings = Sightings()
        self._outbid = 0
        self._looked = False

    def manages(self, key: Key) -> bool:
        """See `Installations.manages`."""
        return super().manages(key) and self._shards.manages(key)

    async def first_look(self) -> None:
        """Return after the first read, when this leader's term is above all others."""
        failures = 0
        while not self._looked:
            try:
                await self._look()
            except ClusterError as error:
                failures += 1
                delay = backoff_seconds(failures)
                log.warning("other installations were not read, next attempt in %.1f s: %s", delay, error)
                await asyncio.sleep(delay)

    async def look_forever(self, changed: Callable[[], None], /) -> None:
        """Read until cancelled, and call back on each change."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before = self._seen_by_models()
            try:
                await self._look()
            except ClusterError as error:
                log.warning("other installations were not read, the last view stays: %s", error)
            if self._seen_by_models() != before:
                changed()

    def _seen_by_models(self) -> object:
        """The part that decides which models this process manages."""
        return [(each.namespace, each.claim.watches) for each in self.managers], self._shards.kept

    async def _look(self) -> None:
        await self._shards.look()
        try:
            own, others = await self._seen()
        except Refused as error:
            await self._go_blind(error)
            return
        claim = replace(self._leadership.claim, sees_others=True)
        alive = self._sightings.alive([*others, own], at=time.monotonic(), now=datetime.now(UTC))
        if own not in alive:
            own = replace(own, reign_began=datetime.max.replace(tzinfo=UTC))
        alive = [each for each in alive if each is not own]
        # Engines refuse a term below one that they saw. Later, only earlier installations can have pushed.
        sharing = [other for other in others if own.claim.overlaps(other.claim)]
        counted = plausible(sharing, now=time.time())
        terms = [other.term for other in counted if not self._looked or other.precedes(own)]
        if sharing and self._leadership.shard.number == 1:
            # Others read the Lease of shard 1 only, and have to exceed the terms of all shards.
            terms.append(self._shards.highest_term)
        self._outbid = max(self._outbid, *terms, 0)
        await self._leadership.publish(claim, above=self._outbid)
        self._settle(preceding(own, alive))

    async def _seen(self) -> tuple[Installation, list[Installation]]:
        """This installation and the others, by their Leases."""
        listed, _ = await self._cluster.list_through(
            LEASES, None, Installation.read, fields=f"metadata.name={LEASE_NAME}"
        )
        home = self._leadership.lease.namespace
        own = next((each for each in listed if each.namespace == home), None)
        if self._leadership.shard.number > 1:
            own = own or self._nobody()
        elif own is None or own.holder != self._leadership.identity:
            if own is not None and own.holder:
                self._leadership.saw(own.holder)
            raise NotListed("the list does not have this leader's last write to its own Lease")
        others = [each for each in listed if each.namespace != home]
        trusted = [await self._authority.believed(each, within=own.claim) for each in others]
        return own, [each for each in trusted if each is not None]

    def _nobody(self) -> Installation:
        """This installation before its shard 1 had a leader."""
        last, leadership = datetime.max.replace(tzinfo=UTC), self._leadership
        return Installation(
            leadership.lease.namespace, leadership.claim, "", leadership.term, reign_began=last, renewed=last
        )

    async def _go_blind(self, error: Refused) -> None:
        """Manage everything without a view of others, with a term above those that another one likely has."""
        claim = self._leadership.claim
        if claim.sees_others:
            log.warning(
                "this installation cannot detect others that watch the same namespaces, because RBAC forbids"
                " it to read their Leases; set detectOtherInstallations: true in the chart: %s",
                error.message,
            )
            self._outbid = max(self._outbid, int(time.time()) + _MARGIN_SECONDS)
        await self._leadership.publish(replace(claim, sees_others=False), above=self._outbid)
        self._settle([])

    def _settle(self, managers: Sequence[Installation]) -> None:
        before, now = _homes(self.managers), _homes(managers)
        for each in managers:
            if each.namespace not in before:
                log.error("%s", _refusal(each))
        for home in sorted(before - now):
            log.warning("the operator in namespace %s no longer manages models of this one", home)
        self.managers, self._looked = managers, True
        self._metrics.other_installations.set(len(managers))


def preceding(own: Installation, others: Iterable[Installation]) -> list[Installation]:
    """The installations that watch a namespace of this one and go before it, in their order."""
    sharing = [other for other in others if own.claim.overlaps(other.claim) and other.precedes(own)]
    return sorted(sharing, key=lambda other: other.order)


def _homes(installations: Sequence[Installation]) -> set[str]:
    return {each.namespace for each in installations}


def _refusal(other: Installation) -> str:
    shared = ", ".join(sorted(other.claim.watches)) or "all namespaces"
    return (
        f"refused: models in {shared}, because the operator in namespace {other.namespace} has managed them"
        f" since {other.reign_began.isoformat(timespec='seconds')}. Uninstall one of the two, or give each"
        " its own watchNamespaces"
    )
