"""The kopf part of the operator: registry, handlers, login and settings.

By decision 9, kopf only watches. Its handlers pass events on, and a queue of our own reconciles. It leaves no
state, no finalizer and no timer on objects. A Lease elects the leader in place of peering, and our HTTP
server answers the probes of Kubernetes whether kopf runs or not.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import kopf

from outrider.cluster.client import runs_in_cluster
from outrider.cluster.resources import MODELS, PODS, WATCHED_CHILDREN, Resource
from outrider.controller.store import MANAGED_SELECTOR

_OBJECTS_AT_ONCE = 4

Take = Callable[[Resource, str | None, dict[str, Any]], object]
"""Receives an event of a kind: the change (ADDED, MODIFIED, DELETED; None in a first list) and the object."""


def operator_registry(take: Take) -> kopf.OperatorRegistry:
    """All handlers of the operator. They run in kopf's thread."""
    registry = kopf.OperatorRegistry()

    kopf.on.login(registry=registry)(login)

    @kopf.on.event(group=MODELS.group, version=MODELS.version, plural=MODELS.plural, registry=registry)
    async def on_model(event: Mapping[str, Any], **_: object) -> None:
        take(MODELS, event["type"], event["object"])

    @kopf.on.event(group=PODS.group, version=PODS.version, plural=PODS.plural, registry=registry)
    async def on_pod(event: Mapping[str, Any], **_: object) -> None:
        take(PODS, event["type"], event["object"])

    for kind in WATCHED_CHILDREN:
        kopf.on.event(group=kind.group, version=kind.version, plural=kind.plural, registry=registry)(
            _on_child(kind, take)
        )
    return registry


def login(**arguments: Any) -> kopf.ConnectionInfo | None:
    """Log in with the pod's service account, or with the kubeconfig outside a cluster."""
    if runs_in_cluster():
        return kopf.login_with_service_account(**arguments)
    return kopf.login_with_kubeconfig(**arguments)


def _on_child(kind: Resource, take: Take) -> Callable[..., Awaitable[None]]:
    async def on_child(event: Mapping[str, Any], **_: object) -> None:
        take(kind, event["type"], event["object"])

    return on_child


def operator_settings() -> kopf.OperatorSettings:
    """Settings with which kopf only watches, and retries forever."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.persistence.diffbase_storage = NothingKept()
    settings.networking.error_backoffs = EndlessBackoffs()
    settings.networking.request_timeout = 30.0
    settings.networking.connect_timeout = 5.0
    settings.watching.connect_timeout = 5.0
    # kopf holds a whole chunk, text and objects, of each kind. A tenant may store objects of 1.5 MB.
    settings.watching.chunk_size = _OBJECTS_AT_ONCE
    settings.queueing.idle_timeout = 0.5
    # The process must outlive kopf; by default kopf kills it when its own end takes too long.
    settings.process.ultimate_exiting_timeout = None
    for resource in (PODS, *WATCHED_CHILDREN):
        settings.watching.label_selectors[resource.group, resource.version, resource.plural] = (
            MANAGED_SELECTOR
        )
    return settings


class EndlessBackoffs:
    """Endless growing delays in seconds between retries of a failed request."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.5, 1.0, 2.0)
        yield from itertools.repeat(4.0)


class NothingKept(kopf.DiffBaseStorage):
    """Storage without content: only kopf's handlers of changes need a copy and an annotation per event."""

    def build(self, **_: object) -> kopf.BodyEssence:
        """Return an empty essence."""
        return kopf.BodyEssence()

    def fetch(self, **_: object) -> None:
        """Return nothing."""

    def store(self, **_: object) -> None:
        """Store nothing."""
