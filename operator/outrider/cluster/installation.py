"""Claims of installations in their Leases, and which installation takes precedence. Pure.

Every installation has one Lease of the same name in its own namespace. Annotations of the Lease say which
namespaces its holder watches. The rest is what leader election writes anyway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from outrider.cluster.objects import version_number
from outrider.cluster.resources import JsonObject
from outrider.cluster.shards import ONLY_SHARD, Shard

WATCHES_ANNOTATION = "outrider.dev/watch-namespaces"
ACCOUNT_ANNOTATION = "outrider.dev/service-account"
SEES_ANNOTATION = "outrider.dev/sees-others"
TERM_ANNOTATION = "outrider.dev/term"
SHARD_ANNOTATION = "outrider.dev/shard"
SINCE_ANNOTATION = "outrider.dev/since"
"""Resource version at which the holder took the Lease."""

MAX_NAMESPACES = 100
"""Limit of namespaces that an operator watches by name; each costs a request to the API server."""

_ALL = "*"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_MAX_TERM = 15


class _View(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


class _LeaseMetadata(_View):
    namespace: str
    name: str = ""
    creation_timestamp: AwareDatetime
    annotations: dict[str, str] = Field(default_factory=dict)


class _LeaseSpec(_View):
    holder_identity: str = ""
    lease_duration_seconds: int = Field(default=0, ge=0, le=3600)
    lease_transitions: int = 0
    acquire_time: AwareDatetime
    renew_time: AwareDatetime


class _Lease(_View):
    metadata: _LeaseMetadata
    spec: _LeaseSpec


@dataclass(frozen=True, slots=True)
class Claim:
    """An operator's statement about itself.

    watches: namespaces, empty for all. account: name of the operator's service account.
    sees_others: the operator may read the Leases of other installations; otherwise it cannot yield to them.
    shard: the models that the process manages.
    """

    watches: frozenset[str] = frozenset()
    account: str = ""
    sees_others: bool = True
    shard: Shard = ONLY_SHARD

    def annotations(self) -> dict[str, str]:
        """Return the claim as annotations of a Lease."""
        return {
            WATCHES_ANNOTATION: ",".join(sorted(self.watches)) or _ALL,
            ACCOUNT_ANNOTATION: self.account,
            SEES_ANNOTATION: "true" if self.sees_others else "false",
            SHARD_ANNOTATION: str(self.shard),
        }

    def covers(self, namespace: str) -> bool:
        """Return True if the operator watches models of this namespace."""
        return not self.watches or namespace in self.watches

    def overlaps(self, other: Claim) -> bool:
        """Return True if both may watch the same namespace."""
        return not self.watches or not other.watches or bool(self.watches & other.watches)


@dataclass(frozen=True, slots=True)
class Installation:
    """An operator as its Lease describes it. namespace: that of the Lease, which names the installation.

    holder: empty after the holder released the Lease. term: the leadership term in its pushes.
    lease: name of the Lease. since: resource version at which the holder took it, None if it has not said so.
    """

    namespace: str
    claim: Claim
    holder: str
    term: int
    reign_began: datetime
    renewed: datetime
    lasts: timedelta = field(default=timedelta())
    lease: str = ""
    since: int | None = None

    @classmethod
    def read(cls, raw: JsonObject) -> Installation | None:
        """Parse a Lease; return None if it has no claim or cannot be parsed."""
        try:
            lease = _Lease.model_validate(raw)
        except ValidationError:
            return None
        claim = _claim(lease.metadata.annotations)
        if claim is None:
            return None
        return cls(
            namespace=lease.metadata.namespace,
            claim=claim,
            holder=lease.spec.holder_identity,
            term=term_of(
                lease.metadata.creation_timestamp, lease.spec.lease_transitions, lease.metadata.annotations
            ),
            reign_began=lease.spec.acquire_time,
            renewed=lease.spec.renew_time,
            lasts=timedelta(seconds=lease.spec.lease_duration_seconds),
            lease=lease.metadata.name,
            since=version_number(lease.metadata.annotations.get(SINCE_ANNOTATION, "")),
        )

    def precedes(self, other: Installation) -> bool:
        """Return True if the other installation must yield in namespaces that both watch.

        An installation that cannot see others takes precedence, because it cannot yield. Otherwise the
        older leadership term does. Both sides read the same values, so they agree despite unequal clocks.
        """
        return self.order < other.order

    @property
    def order(self) -> tuple[bool, datetime, str]:
        """Sort key; the smaller one takes precedence."""
        return self.claim.sees_others, self.reign_began, self.namespace


def term_of(created: datetime, transitions: int, annotations: Mapping[str, str]) -> int:
    """Return a Lease's term: creation time in seconds plus changes of holder, or the annotation if larger."""
    stored = annotations.get(TERM_ANNOTATION, "")
    readable = stored.isascii() and stored.isdecimal() and len(stored) <= _MAX_TERM
    return max(int(created.timestamp()) + transitions, int(stored) if readable else 0)


def _claim(annotations: Mapping[str, str]) -> Claim | None:
    text, account = annotations.get(WATCHES_ANNOTATION, ""), annotations.get(ACCOUNT_ANNOTATION, "")
    names = frozenset() if text == _ALL else frozenset(text.split(","))
    if len(names) > MAX_NAMESPACES or not all(_NAME.fullmatch(name) for name in (*names, account)):
        return None
    return Claim(
        watches=names,
        account=account,
        sees_others=annotations.get(SEES_ANNOTATION) != "false",
        shard=Shard.read(annotations.get(SHARD_ANNOTATION, "")) or Shard(),
    )
