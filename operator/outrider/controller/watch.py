"""Keeps the store up to date: by kopf, by full reads, and from the answers to writes.

kopf does not report an object that was deleted while a watch was down; the full reads do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError, NotFound, Refused
from outrider.cluster.objects import Metadata
from outrider.cluster.resources import MODELS, PODS, WATCHED_CHILDREN, JsonObject, Resource
from outrider.controller.kept_fields import lean_metadata
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.store import Cache, Store
from outrider.controller.stored import (
    MANAGED_SELECTOR,
    Entry,
    Key,
    StoredModel,
    StoredPod,
    is_tuner_state,
    key_of,
)

log = logging.getLogger(__name__)

WATCHED = (MODELS, PODS, *WATCHED_CHILDREN)
_KOPFS = frozenset({"apiVersion", "kind", "metadata"})
RESTART_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_LASTING_SECONDS = 60.0

Receive = Callable[[Resource, str | None, dict[str, Any]], None]
"""Takes an event of a kind: the change (ADDED, MODIFIED, DELETED; None in a first list) and the object."""
Watches = Callable[[Receive], Awaitable[None]]
"""Delivers the events of all watched kinds, on any thread, until it fails; see `kopf_operator`."""


class ClusterWatch:
    """Keeps the store up to date and calls ``changed`` with the model of an event.

    namespaces: the watched namespaces; empty for all.
    urgent: called too with the model of a change that causes an early tick.
    missed_seconds: until dropped objects of a new model are read. Many new models share one read.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        store: Store,
        changed: Callable[[Key], None],
        *,
        namespaces: Sequence[str],
        metrics: OwnMetrics,
        urgent: Callable[[Key], None] = lambda _: None,
        missed_seconds: float = 5.0,
    ) -> None:
        self._missed_seconds = missed_seconds
        self._cluster = cluster
        self._store = store
        self._changed = changed
        self._urgent = urgent
        self._namespaces = tuple(namespaces)
        self._metrics = metrics
        self._resync = asyncio.Event()
        self._reads_soon: asyncio.TimerHandle | None = None
        self._refused: set[str] = set()
        """Namespaces that the last full read skipped."""
        self._complete: set[str] = set()
        """Namespaces of which every kind was read, at least once."""

    def has_read(self, namespace: str) -> bool:
        """Whether a full read had this namespace. Before, its models seem to lack objects that they have."""
        return not self._namespaces or namespace in self._complete

    async def read_all(self) -> None:
        """Read everything once, and queue the models that changed.

        Of several namespaces, those that the API server refuses are skipped, and their entries stay.

        Raises:
            ClusterError: a read failed, or every namespace is refused; the results before it are kept.
        """
        self._store.forget_missed()
        refused: set[str] = set()
        for resource in WATCHED:
            labels = None if resource == MODELS else MANAGED_SELECTOR
            for namespace in self._namespaces or (None,):
                if namespace not in refused:
                    for key in await self._read_or_skip(resource, namespace, labels, refused):
                        self._changed(key)
        self._settle(refused)

    async def _read_or_skip(
        self, resource: Resource, namespace: str | None, labels: str | None, refused: set[str]
    ) -> set[Key]:
        """As `_read`; a refused namespace joins `refused`, unless no other one is left."""
        try:
            return await self._read(resource, namespace, labels)
        except (Refused, NotFound) as error:
            if namespace is None or refused | {namespace} >= set(self._namespaces):
                raise
            refused.add(namespace)
            self._tell_of_refusal(namespace, resource, error)
            return set()

    def _tell_of_refusal(self, namespace: str, resource: Resource, error: ClusterError) -> None:
        if namespace not in self._refused:
            self._refused.add(namespace)
            log.warning(
                "Outrider skips namespace %s, because the API server does not let it list %s there (%s). "
                "To change it, restore the rights of its service account in that namespace, or take the "
                "namespace out of watchNamespaces.",
                namespace,
                resource.plural,
                error.message,
            )

    def _settle(self, refused: set[str]) -> None:
        """Remember which namespaces a full read had, and queue the models that waited for it."""
        for namespace in sorted(self._refused - refused):
            log.info("Outrider reads namespace %s again", namespace)
        new = set(self._namespaces) - refused - self._complete
        self._refused = refused
        self._complete |= new
        for stored in self._store.models:
            if stored.metadata.namespace in new:
                self._changed(key_of(stored.metadata))

    async def _read(self, resource: Resource, namespace: str | None, labels: str | None) -> set[Key]:
        # Each kind has its own type of entries, which only its cache accepts.
        cache: Cache[Any] = self._store.cache(resource)

        def keep(raw: JsonObject) -> Entry | None:
            entry: Entry | None = cache.read(raw, only_ours=True)
            return entry if entry is not None and self._store.of_a_model(resource, entry.metadata) else None

        with cache.reading() as seen:
            entries, version = await self._cluster.list_through(resource, namespace, keep, labels=labels)
            return cache.replace(entries, version, within=namespace, seen=seen)

    async def read_all_forever(self, period_seconds: float) -> None:
        """Read everything and queue all models periodically, and after each restart of the watches."""
        while True:
            try:
                async with asyncio.timeout(period_seconds):
                    await self._resync.wait()
            except TimeoutError:
                for stored in self._store.models:
                    self._changed(key_of(stored.metadata))
            self._resync.clear()
            try:
                await self.read_all()
            except Exception as error:  # noqa: BLE001 - a supervision loop: watches and the next read continue
                log.warning("the full read failed, the watches continue: %s: %s", type(error).__name__, error)

    async def watch_forever(
        self, watches: Watches, *, restart_seconds: Sequence[float] = RESTART_SECONDS
    ) -> None:
        """Run the watches until cancelled, and restart them when they end.

        kopf retries refused connections, 403, 429 and 5xx without end. Any other status and a body that is no
        JSON end all its watches, and while it starts also a body that is cut.

        restart_seconds: pauses after failures in a row; the last one repeats. Watches that lasted a minute
            begin a new row.
        """
        loop = asyncio.get_running_loop()

        def receive(resource: Resource, change: str | None, raw: dict[str, Any]) -> None:
            cache = self._store.cache(resource)
            if change == "DELETED":
                if cache.keeps(metadata := lean_metadata(raw)):
                    loop.call_soon_threadsafe(self._drop, resource, metadata)
                return
            # The answer to a write often brings the same state earlier.
            entry = cache.news(raw)
            # kopf keeps an object for some seconds and needs only its name.
            for name in raw.keys() - _KOPFS:
                del raw[name]
            if entry is not None:
                loop.call_soon_threadsafe(self._take, resource, entry)

        failures = 0
        while True:
            started_at = loop.time()
            await watches(receive)
            self._metrics.watch_restarts.inc()
            lasted = loop.time() - started_at
            failures = 1 if lasted > _LASTING_SECONDS else failures + 1
            delay = restart_seconds[min(failures, len(restart_seconds)) - 1]
            log.warning("the watches ended after %.0f s, restart in %.0f s", lasted, delay)
            await asyncio.sleep(delay)
            self._resync.set()

    def _drop(self, resource: Resource, metadata: Metadata) -> None:
        cache = self._store.cache(resource)
        cache.drop(metadata)
        if not is_tuner_state(resource.kind, metadata):
            self._changed(cache.model_of(metadata))

    def _take(self, resource: Resource, entry: Entry) -> None:
        cache: Cache[Any] = self._store.cache(resource)
        metadata = entry.metadata
        before = cache.get(key_of(metadata))
        if not self._store.of_a_model(resource, metadata) or (after := cache.keep(entry)) is None:
            return
        if cannot_wait(before, after):
            self._urgent(cache.model_of(metadata))
        if resource == MODELS and before is None and self._lacks_objects(key_of(metadata)):
            self._read_soon()
        if not is_tuner_state(resource.kind, metadata):
            self._changed(cache.model_of(metadata))

    def _lacks_objects(self, model: Key) -> bool:
        return self._store.was_missed(model) or not self.has_read(model.namespace)

    def _read_soon(self) -> None:
        if self._reads_soon is None or self._reads_soon.when() < asyncio.get_running_loop().time():
            loop = asyncio.get_running_loop()
            self._reads_soon = loop.call_later(self._missed_seconds, self._resync.set)


class WriteThroughStore:
    """Stores the answers to writes.

    An answer is the whole present object, so it may contain a change by a user. The watch, which brings the
    same state a moment later, then reports nothing new.

    on_external_change: called with a model whose answer contained such a change.
    """

    def __init__(self, store: Store, on_external_change: Callable[[Key], None] = lambda _: None) -> None:
        self._store = store
        self._overtaken = on_external_change

    def keep(self, answer: JsonObject, key: Key) -> None:
        """Store the answer to a write of this model."""
        before = self._store.models.get(key)
        after = self._store.models.put(answer)
        if after is not None and cannot_wait(before, after):
            self._overtaken(key_of(after.metadata))


def cannot_wait(before: Entry | None, after: Entry) -> bool:
    """Whether a change causes an early tick.

    A user changed spec or annotations, or a pod became ready without its schedule.
    """
    if isinstance(after, StoredPod):
        return after.pod.ready and not (isinstance(before, StoredPod) and before.pod.ready)
    if not isinstance(after, StoredModel) or before is None:
        return False
    old, new = before.metadata, after.metadata
    return (old.uid, old.generation, old.annotations) != (new.uid, new.generation, new.annotations)
