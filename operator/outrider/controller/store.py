"""The last known state of the cluster: models, their objects and pods, from watches and full reads."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from outrider.cluster.objects import Metadata, Pod, version_number
from outrider.cluster.resources import (
    MODELS,
    PODS,
    WATCHED_CHILDREN,
    JsonObject,
    Resource,
)
from outrider.cluster.shards import Shard
from outrider.controller.kept_fields import NamespaceBudgets, lean_metadata
from outrider.controller.stored import (
    NAMESPACE_BYTES,
    Entry,
    Key,
    StoredChild,
    StoredModel,
    StoredPod,
    error_text,
    key_of,
    model_of,
    object_name,
)
from outrider.controller.target_launch import TargetPods
from outrider.engine.signing import SigningKey
from outrider.plan.names import WEIGHTS_LABEL, WORKERS_LABEL

log = logging.getLogger(__name__)

EntryT = TypeVar("EntryT", bound=Entry)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The result of a reconcile that applied all objects.

    key: signs requests to the control API. revisions: of the pods that the reconcile wants.
    """

    key: SigningKey
    revisions: frozenset[str] = frozenset()


class LeftOut(StrEnum):
    """The cause for which an object state is dropped."""

    UNREADABLE = "unreadable"
    NO_ROOM = "no_room"


class Cache(Generic[EntryT]):
    """Objects of one kind. An older state never replaces a newer one, in whichever order they arrive.

    An object that cannot be parsed, or for which its namespace has no memory left, is dropped.

    read: parses an object. It receives the known entry too, of which it may reuse parts, and the metadata.
    model_of: the model of an object.
    ours: whether this process keeps the objects of a model. Safe on any thread.
    left_out: called for every dropped state, in the thread that reads.
    smaller: the entry to keep if there is no memory for the full one.
    """

    def __init__(
        self,
        read: Callable[[JsonObject, EntryT | None, Metadata], EntryT],
        *,
        budgets: NamespaceBudgets,
        model_of: Callable[[Metadata], Key] = model_of,
        ours: Callable[[Key], bool] = lambda _: True,
        left_out: Callable[[LeftOut], None] = lambda _: None,
        smaller: Callable[[EntryT, int], EntryT] | None = None,
    ) -> None:
        self._parse = read
        self._budgets = budgets
        self.model_of = model_of
        self._ours = ours
        self._left_out = left_out
        self._smaller = smaller
        self._entries: dict[Key, EntryT] = {}
        self._by_model: defaultdict[Key, set[Key]] = defaultdict(set)
        self._full: set[str] = set()
        self._reads = 0
        self._deleted: dict[Key, int] = {}
        """Objects deleted during a full read, and the version of that; the list may still have them."""
        self.newest = 0
        """The highest resource version that was seen."""

    def get(self, key: Key) -> EntryT | None:
        """One object."""
        return self._entries.get(key)

    def of_model(self, model: Key) -> list[EntryT]:
        """Objects that belong to this model, by name."""
        return [self._entries[key] for key in sorted(self._by_model.get(model, ()))]

    def read(self, raw: JsonObject, *, only_ours: bool = False) -> EntryT | None:
        """The entry of an object; None if it cannot be parsed. Safe on any thread.

        only_ours: None too for an object of another shard.
        """
        try:
            metadata = lean_metadata(raw)
            if only_ours and not self.keeps(metadata):
                return None
            return self._parse(raw, self._known(raw), metadata)
        except Exception as error:  # noqa: BLE001 - an error in one object must not keep the others from being read
            self._left_out(LeftOut.UNREADABLE)
            log.warning(
                "dropped an object that cannot be parsed: %s: %s", object_name(raw), error_text(error)
            )
            return None

    def keeps(self, metadata: Metadata) -> bool:
        """Whether this process keeps an object. Safe on any thread."""
        return self._ours(self.model_of(metadata))

    def news(self, raw: JsonObject) -> EntryT | None:
        """The entry of a state of ours that is newer than the known one; None without. Safe on any thread."""
        known, metadata = self._known(raw), raw.get("metadata") or {}
        version = version_number(str(metadata.get("resourceVersion")))
        if known is not None and version is not None and version <= known.metadata.version:
            return None
        return self.read(raw, only_ours=True)

    def _known(self, raw: JsonObject) -> EntryT | None:
        metadata = raw.get("metadata") or {}
        return self._entries.get(Key(str(metadata.get("namespace", "")), str(metadata.get("name"))))

    def put(self, raw: JsonObject) -> EntryT | None:
        """Store a state. Returns None if it is not newer than the known one, or dropped."""
        entry = self.news(raw)
        return None if entry is None else self.keep(entry)

    def keep(self, entry: EntryT) -> EntryT | None:
        """Store an entry. Returns None if it is not newer than the known one, or there is no memory."""
        known = self._entries.get(key_of(entry.metadata))
        if known is not None and known.metadata.version >= entry.metadata.version:
            return None
        return self._store(entry)

    def improve(self, entry: EntryT) -> None:
        """Replace the stored entry by another form of the same state."""
        key = key_of(entry.metadata)
        known = self._entries.get(key)
        if known is not None and known.metadata.resource_version == entry.metadata.resource_version:
            self._store(entry)

    def drop(self, metadata: Metadata) -> None:
        """Remove a deleted object, unless another one has its name now."""
        key = key_of(metadata)
        if self._reads:
            self._deleted[key] = max(metadata.version, self._deleted.get(key, 0))
        known = self._entries.get(key)
        if known is not None and known.metadata.uid == metadata.uid:
            self._forget(key)

    @contextmanager
    def reading(self) -> Iterator[int]:
        """Remember deletions during a full read, for `replace` within it. Yields `newest` at its start."""
        self._reads += 1
        try:
            yield self.newest
        finally:
            self._reads -= 1
            if not self._reads:
                self._deleted.clear()

    def replace(
        self, entries: Iterable[EntryT], version: int, *, within: str | None, seen: int = 0
    ) -> set[Key]:
        """Replace the entries of one namespace, or of all, by a full read. Returns the models that changed.

        version: resource version of the read. A stored object with a newer version stays, and one that was
        deleted since does not return, if the read was made in `reading`.
        seen: `newest` at the start of the read. A read below it comes from an API server whose versions went
        back, as after a restored backup; then the read replaces every stored state.
        """
        went_back = version < seen
        if went_back:
            log.warning(
                "resource versions went back from %d to %d, as after a restored backup; all is read again",
                seen,
                version,
            )
        present: set[Key] = set()
        concerned: set[Key] = set()
        for entry in entries:
            key = key_of(entry.metadata)
            # A read is never older than its start, unless versions went back.
            as_of = max(version, entry.metadata.version)
            if not went_back and self._deleted.get(key, 0) > as_of:
                continue
            present.add(key)
            known = self._entries.get(key)
            if known is not None and known.metadata.version == entry.metadata.version:
                continue
            if went_back or known is None or known.metadata.version <= as_of:
                self._store(entry)
                concerned.add(self.model_of(entry.metadata))
        for key, known in list(self._entries.items()):
            covered = within in (None, key.namespace) and (went_back or known.metadata.version <= version)
            if covered and key not in present:
                concerned.add(self.model_of(known.metadata))
                self._forget(key)
        self.newest = version if went_back else max(self.newest, version)
        return concerned

    def _store(self, entry: EntryT) -> EntryT | None:
        key = key_of(entry.metadata)
        self._forget(key)
        self.newest = max(self.newest, entry.metadata.version)
        if not self._budgets.take(key.namespace, entry.size):
            self._without_room(key)
            if self._smaller is None:
                return None
            entry = self._smaller(entry, self._budgets.most)
        elif 2 * self._budgets.used(key.namespace) < self._budgets.most:
            self._full.discard(key.namespace)
        self._entries[key] = entry
        self._by_model[self.model_of(entry.metadata)].add(key)
        return entry

    def _without_room(self, key: Key) -> None:
        self._left_out(LeftOut.NO_ROOM)
        if key.namespace not in self._full:
            self._full.add(key.namespace)
            log.warning(
                "dropped an object, because its namespace uses %d MiB of memory already: %s",
                self._budgets.used(key.namespace) // 2**20,
                key,
            )

    def _forget(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._budgets.give_back(key.namespace, entry.size)
        model = self.model_of(entry.metadata)
        self._by_model[model].discard(key)
        if not self._by_model[model]:
            del self._by_model[model]

    def __iter__(self) -> Iterator[EntryT]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)


class Store:
    """All watched objects, and the results of reconciles.

    left_out: called for every dropped object.
    namespace_bytes: memory limit of one namespace.
    shard: the part of the models that this process keeps.
    """

    def __init__(
        self,
        *,
        left_out: Callable[[LeftOut], None] = lambda _: None,
        namespace_bytes: int = NAMESPACE_BYTES,
        max_unknown_models: int = 10_000,
        shard: Callable[[], Shard] = Shard,
    ) -> None:
        self._shard = shard
        self._max_unknown_models = max_unknown_models
        budgets = NamespaceBudgets(namespace_bytes)
        # A model belongs to itself, whatever its labels. Without memory, its status has the problem.
        self.models = Cache(
            StoredModel.read,
            budgets=budgets,
            model_of=key_of,
            ours=self.is_of_this_shard,
            left_out=left_out,
            smaller=StoredModel.without_content,
        )
        ours = self.is_of_this_shard
        self.pods = Cache(StoredPod.read, budgets=budgets, ours=ours, left_out=left_out)
        self.children = {
            resource: Cache(StoredChild.read, budgets=budgets, ours=ours, left_out=left_out)
            for resource in WATCHED_CHILDREN
        }
        self.reconciled: dict[Key, Reconciled] = {}
        """The models whose objects this process has applied; only these are tuned."""
        self.targets: dict[Key, TargetPods] = {}
        """The pods of each model with `spec.target`, by its last reconcile."""
        self.neighbours: dict[Key, StoredModel] = {}
        """Models of other shards that models of this one name, as of the last reconcile of those."""
        self._unknown: set[Key] = set()

    def cache(self, resource: Resource) -> Cache[StoredModel] | Cache[StoredPod] | Cache[StoredChild]:
        """The cache of a kind."""
        if resource == MODELS:
            return self.models
        return self.pods if resource == PODS else self.children[resource]

    def is_of_this_shard(self, model: Key) -> bool:
        """Whether this process keeps the model. Safe on any thread."""
        return self._shard().owns(*model)

    def model(self, key: Key) -> StoredModel | None:
        """A model of this shard, or one of another that a model of this shard names."""
        return self.models.get(key) or self.neighbours.get(key)

    def of_a_model(self, resource: Resource, metadata: Metadata) -> bool:
        """Whether an object is a model or belongs to a known one; others are dropped. Safe on any thread."""
        if resource == MODELS:
            return True
        model = model_of(metadata)
        if self.models.get(model) is not None:
            return True
        if len(self._unknown) < self._max_unknown_models:
            self._unknown.add(model)
        return self.models.get(model) is not None

    def was_missed(self, model: Key) -> bool:
        """Whether objects of this model were dropped before it was known; the next read finds them."""
        return model in self._unknown or len(self._unknown) >= self._max_unknown_models

    def forget_missed(self) -> None:
        """Start a full read: clear the models whose objects were dropped."""
        self._unknown.clear()

    def pods_of(self, model: Key) -> tuple[Pod, ...]:
        """The engine pods of a model by name, without workers and downloads; for a group, the leader."""
        others = {WEIGHTS_LABEL, WORKERS_LABEL}
        return tuple(pod for pod in self._pods(model) if others.isdisjoint(pod.metadata.labels))

    def workers_of(self, model: Key) -> tuple[Pod, ...]:
        """The workers of a model's groups, by name."""
        return tuple(pod for pod in self._pods(model) if WORKERS_LABEL in pod.metadata.labels)

    def downloads_of(self, model: Key) -> tuple[Pod, ...]:
        """The download pods of a model, by name."""
        return tuple(pod for pod in self._pods(model) if WEIGHTS_LABEL in pod.metadata.labels)

    def _pods(self, model: Key) -> tuple[Pod, ...]:
        return tuple(stored.pod for stored in self.pods.of_model(model))
