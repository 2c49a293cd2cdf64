"""Detection of other installations of the operator, so that two never manage the same model."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from outrider.cluster.authority import Authority
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError, Refused
from outrider.cluster.installation import Installation
from outrider.cluster.lease import LEASE_NAME, LeadershipElsewhere
from outrider.cluster.resources import LEASES
from outrider.controller.managed_namespaces import ManagedNamespaces, Sightings, managed_namespaces
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.work_queue import backoff_seconds

log = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
_MARGIN_SECONDS = 60
"""Seconds above the present time that exceed every term: a term is a creation time plus leader changes."""
_FARTHEST_SECONDS = 365 * 86_400
"""Maximum distance of a term from the present time. A higher one is invalid, and would block later
leaders."""


class Installations(Protocol):
    """The other installations."""

    @property
    def managed(self) -> ManagedNamespaces:
        """The view of the last read."""
        ...

    async def first_look(self) -> None:
        """Return after the first successful read; before it nothing may be managed."""
        ...

    async def look_forever(self, changed: Callable[[], None], /) -> None:
        """Read until cancelled, and call back when an installation came, ended or changed its order."""
        ...


class Alone:
    """No other installation: without leader election there are no Leases to read."""

    def __init__(self) -> None:
        self.managed = ManagedNamespaces()

    async def first_look(self) -> None:
        """Return at once."""

    async def look_forever(self, _: Callable[[], None], /) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()


class OtherInstallations:
    """Reads the Leases of all installations.

    This one writes its namespaces into its Lease before it reads the others. So of two that start together,
    the later one sees the earlier one.
    """

    def __init__(self, cluster: ClusterClient, leadership: LeadershipElsewhere, metrics: OwnMetrics) -> None:
        self.managed = ManagedNamespaces()
        self._cluster = cluster
        self._leadership = leadership
        self._metrics = metrics
        self._authority = Authority(cluster)
        self._sightings = Sightings()
        self._outbid = 0
        self._looked = False

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
            before = _told(self.managed)
            try:
                await self._look()
            except ClusterError as error:
                log.warning("other installations were not read, the last view stays: %s", error)
            if _told(self.managed) != before:
                changed()

    async def _look(self) -> None:
        try:
            own, others = await self._seen()
        except Refused as error:
            await self._go_blind(error)
            return
        claim = replace(self._leadership.claim, sees_others=True)
        view = managed_namespaces(
            own, self._sightings.alive(others, at=time.monotonic(), now=datetime.now(UTC))
        )
        # Engines refuse a term below one that they saw. Later, only earlier installations can have pushed.
        sharing = [other for other in others if own.claim.overlaps(other.claim)]
        plausible = [other for other in sharing if other.term < time.time() + _FARTHEST_SECONDS]
        terms = [other.term for other in plausible if not self._looked or other.precedes(own)]
        self._outbid = max(self._outbid, *terms, 0)
        await self._leadership.publish(claim, above=self._outbid)
        self._settle(view)

    async def _seen(self) -> tuple[Installation, list[Installation]]:
        """This installation and the others, by their Leases."""
        listed, _ = await self._cluster.list_through(
            LEASES, None, Installation.read, fields=f"metadata.name={LEASE_NAME}"
        )
        home = self._leadership.lease.namespace
        own = next((each for each in listed if each.namespace == home), None)
        if own is not None and own.holder:
            self._leadership.saw(own.holder)
        if own is None or own.holder != self._leadership.identity:
            raise _NotListed("the list does not have this leader's last write to its own Lease")
        others = [each for each in listed if each.namespace != home]
        trusted = [await self._authority.believed(each, within=own.claim) for each in others]
        return own, [each for each in trusted if each is not None]

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
        self._settle(ManagedNamespaces())

    def _settle(self, view: ManagedNamespaces) -> None:
        for line in _news(self.managed, view):
            log.warning(line)
        self.managed, self._looked = view, True
        self._metrics.other_installations.labels("active").set(len(view.before))
        self._metrics.other_installations.labels("standby").set(len(view.behind))


class _NotListed(ClusterError):
    """A list that is older than the last write; the next one has it."""


def _told(view: ManagedNamespaces) -> object:
    """The part of a view that matters to models and their status."""
    return [[(each.namespace, each.claim.watches) for each in side] for side in (view.before, view.behind)]


def _news(earlier: ManagedNamespaces, view: ManagedNamespaces) -> list[str]:
    """The changes between two views, one log message each."""
    came_first = [each for each in view.before if each.namespace not in _homes(earlier.before)]
    gone_first = _homes(earlier.before) - _homes(view.before)
    came_second = _homes(view.behind) - _homes(earlier.behind)
    gone_second = _homes(earlier.behind) - _homes(view.behind)
    return [
        *(
            f"on standby: {_what(each)} managed by the operator in namespace {each.namespace},"
            f" which leads since {each.reign_began.isoformat(timespec='seconds')}"
            for each in came_first
        ),
        *(
            f"the operator in namespace {home} no longer manages models of this one"
            for home in sorted(gone_first)
        ),
        *(
            f"the operator in namespace {home} watches the same namespaces and is on standby"
            for home in sorted(came_second)
        ),
        *(f"the operator in namespace {home} is no longer on standby" for home in sorted(gone_second)),
    ]


def _homes(installations: Sequence[Installation]) -> set[str]:
    return {each.namespace for each in installations}


def _what(other: Installation) -> str:
    return (
        f"models in {', '.join(sorted(other.claim.watches))} are" if other.claim.watches else "all models are"
    )
