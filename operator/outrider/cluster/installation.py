"""What an operator tells other operators through its Lease, and who comes first. Pure.

Every installation has one Lease, named alike, in a namespace of its own. Its annotations say which
namespaces its holder watches; the rest is what leader election writes anyway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from outrider.cluster.resources import JsonObject

WATCHES_ANNOTATION = "outrider.dev/watch-namespaces"
ACCOUNT_ANNOTATION = "outrider.dev/service-account"
SEES_ANNOTATION = "outrider.dev/sees-others"
TERM_ANNOTATION = "outrider.dev/term"

MOST_NAMESPACES = 100
"""That an operator can watch by name; each one is a question to the API server."""

_ALL = "*"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LONGEST_TERM = 15


class _View(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


class _LeaseMetadata(_View):
    namespace: str
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
    """What an operator says of itself.

    watches: namespaces, empty for all. account: name of the service account that it runs as.
    sees_others: it may read the Leases of others; else it cannot stand by for anybody.
    """

    watches: frozenset[str] = frozenset()
    account: str = ""
    sees_others: bool = True

    def annotations(self) -> dict[str, str]:
        """The form in which a Lease carries it."""
        return {
            WATCHES_ANNOTATION: ",".join(sorted(self.watches)) or _ALL,
            ACCOUNT_ANNOTATION: self.account,
            SEES_ANNOTATION: "true" if self.sees_others else "false",
        }

    def covers(self, namespace: str) -> bool:
        """Whether models of this namespace are watched."""
        return not self.watches or namespace in self.watches

    def overlaps(self, other: Claim) -> bool:
        """Whether some namespace may be watched by both."""
        return not self.watches or not other.watches or bool(self.watches & other.watches)


@dataclass(frozen=True, slots=True)
class Installation:
    """An operator as its Lease shows it. namespace: where that Lease lies; it names the installation.

    holder: empty when the Lease was given back. term: what its pushes bear.
    """

    namespace: str
    claim: Claim
    holder: str
    term: int
    reign_began: datetime
    renewed: datetime
    lasts: timedelta = field(default=timedelta())

    @classmethod
    def read(cls, raw: JsonObject) -> Installation | None:
        """None for a Lease that says nothing of this kind, or cannot be read."""
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
        )

    def precedes(self, other: Installation) -> bool:
        """Whether the other one has to stand by where both watch.

        Who cannot see the others comes first, since it stands by for nobody; then the older reign.
        Both sides read the same values, so they agree whatever their clocks say.
        """
        return self.order < other.order

    @property
    def order(self) -> tuple[bool, datetime, str]:
        """Smaller comes first."""
        return self.claim.sees_others, self.reign_began, self.namespace


def term_of(created: datetime, transitions: int, annotations: Mapping[str, str]) -> int:
    """The term of a Lease's holder: seconds of its creation plus changes of holder, or more if it says so."""
    stored = annotations.get(TERM_ANNOTATION, "")
    readable = stored.isascii() and stored.isdecimal() and len(stored) <= _LONGEST_TERM
    return max(int(created.timestamp()) + transitions, int(stored) if readable else 0)


def _claim(annotations: Mapping[str, str]) -> Claim | None:
    text, account = annotations.get(WATCHES_ANNOTATION, ""), annotations.get(ACCOUNT_ANNOTATION, "")
    names = frozenset() if text == _ALL else frozenset(text.split(","))
    if len(names) > MOST_NAMESPACES or not all(_NAME.fullmatch(name) for name in (*names, account)):
        return None
    return Claim(
        watches=names,
        account=account,
        sees_others=annotations.get(SEES_ANNOTATION) != "false",
    )
