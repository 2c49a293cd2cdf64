"""The last known state of the cluster: models, their objects and pods, from watches and full reads."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

from pydantic import ValidationError

from outrider.api.launch import CANARY_KEY, LAUNCH_KEY
from outrider.api.mistakes import validation_message
from outrider.api.resource import SpeculativeModel
from outrider.api.status import Status
from outrider.api.text import shortened
from outrider.cluster.objects import Child, Deployment, Metadata, Pod
from outrider.cluster.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    MODELS,
    PODS,
    WATCHED_CHILDREN,
    JsonObject,
    Resource,
)
from outrider.controller.kept_fields import Content, NamespaceBudgets, footprint, lean_metadata, texts
from outrider.engine.signing import SigningKey
from outrider.foreign import require_room
from outrider.foreign.readers import STATUS
from outrider.plan.names import MODEL_LABEL, WEIGHTS_LABEL, WORKERS_LABEL, schedule_config_map
from outrider.runtimes.paths import SCHEDULE_FILE

log = logging.getLogger(__name__)

NAMESPACE_BYTES = 96 * 2**20
"""Memory limit in bytes of all that is kept of one namespace."""
_TUNERS_STATUS = ("speculation", "decisions")

_NO_ROOM = (
    "Outrider does not manage this model, because the objects of namespace {namespace} exceed {most} MiB of "
    "the operator's memory. To change it, delete objects that are not needed, such as large ones with the "
    "label {label}."
)
_UNREADABLE = "The object cannot be parsed; the operator's log has the cause."

MANAGED_LABEL = "app.kubernetes.io/managed-by"
MANAGED_SELECTOR = f"{MANAGED_LABEL}=outrider"


class Key(NamedTuple):
    """Namespace and name of an object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A SpeculativeModel as read. Exactly one of ``model`` and ``problem`` is set.

    written: the stored status without the tuner's part.
    size: bytes in memory, or somewhat more than the limit.
    """

    metadata: Metadata
    written: JsonObject
    status: Status
    model: SpeculativeModel | None
    problem: str | None
    size: int

    @classmethod
    def read(cls, raw: JsonObject) -> StoredModel:
        """Parse an object; `problem` has the first error."""
        metadata = lean_metadata(raw)
        status = _readable_status(raw)
        written = {
            name: part for name, part in (raw.get("status") or {}).items() if name not in _TUNERS_STATUS
        }
        size = footprint(raw, most=NAMESPACE_BYTES)

        def stored(model: SpeculativeModel | None, problem: str | None) -> StoredModel:
            return cls(metadata, written, status, model, problem, size)

        try:
            return stored(SpeculativeModel.of_stored({**raw, "status": status}), None)
        except ValidationError as error:
            return stored(None, validation_message(error, raw))
        except Exception as error:  # noqa: BLE001 - an error in one object must not keep the others from being read
            log.warning("an object cannot be parsed: %s: %s", _name_in(raw), _text_of(error))
            return stored(None, _UNREADABLE)

    def without_content(self, most: int) -> StoredModel:
        """The entry of a model whose namespace exceeds its memory: its identity and the problem."""
        problem = _NO_ROOM.format(
            namespace=self.metadata.namespace, most=most // 2**20, label=MANAGED_SELECTOR
        )
        metadata = Metadata(
            name=self.metadata.name,
            namespace=self.metadata.namespace,
            uid=self.metadata.uid,
            resource_version=self.metadata.resource_version,
            generation=self.metadata.generation,
            deletion_timestamp=self.metadata.deletion_timestamp,
        )
        return StoredModel(metadata, {}, Status(), None, problem, 0)


def _readable_status(raw: JsonObject) -> Status:
    try:
        require_room(STATUS, raw.get("status"))
        return Status.model_validate(raw.get("status") or {})
    except ValueError:
        # From a user or another version, or too large; the next report replaces it.
        return Status()


@dataclass(frozen=True, slots=True)
class StoredChild:
    """An object of a model: the fields in use, and its content to compare with the plan.

    data: entries of a ConfigMap that the operator reads. deployment: set for a Deployment. succeeded: set for
    a Job. agrees_with: digest of the manifest with which the content agrees.
    """

    child: Child
    content: Content
    data: Mapping[str, str]
    deployment: Deployment | None
    succeeded: bool
    size: int
    agrees_with: str | None = None

    @classmethod
    def read(cls, raw: JsonObject) -> StoredChild:
        """Parse."""
        metadata = lean_metadata(raw)
        child = Child.model_validate({**raw, "metadata": metadata})
        content = Content.of(raw)
        data: dict[str, str] = {}
        if child.kind == CONFIG_MAPS.kind:
            data = texts(raw.get("data"), *_keys_that_are_read(metadata))
        deployment = None
        if child.kind == DEPLOYMENTS.kind:
            deployment = Deployment.model_validate({**raw, "metadata": metadata})
        succeeded = child.kind == JOBS.kind and bool((raw.get("status") or {}).get("succeeded"))
        judged = (child if deployment is None else deployment).model_dump()
        size = footprint([judged, data, content.packed], most=NAMESPACE_BYTES)
        return cls(child, content, data, deployment, succeeded, size)

    def agreeing(self, applied: str) -> StoredChild:
        """The same state after a comparison with a manifest, of which only the digest is kept."""
        size = self.size - len(self.content.packed or b"")
        return replace(self, content=self.content.known, agrees_with=applied, size=size)

    def following(self, before: StoredChild) -> StoredChild:
        """This state after another one; if only the status changed, the comparison remains valid."""
        if before.agrees_with is None or before.content.digest != self.content.digest:
            return self
        return self.agreeing(before.agrees_with)

    @property
    def metadata(self) -> Metadata:
        """Identity."""
        return self.child.metadata


def _keys_that_are_read(metadata: Metadata) -> tuple[str, ...]:
    model = model_of(metadata).name
    if metadata.name == launch_config_map(model):
        return LAUNCH_KEY, CANARY_KEY
    return (SCHEDULE_FILE,) if metadata.name == schedule_config_map(model) else ()


@dataclass(frozen=True, slots=True)
class StoredPod:
    """A pod."""

    pod: Pod
    size: int

    @classmethod
    def read(cls, raw: JsonObject) -> StoredPod:
        """Parse."""
        pod = Pod.model_validate({**raw, "metadata": lean_metadata(raw)})
        return cls(pod, footprint(pod.model_dump(), most=NAMESPACE_BYTES))

    @property
    def metadata(self) -> Metadata:
        """Identity."""
        return self.pod.metadata


class Entry(Protocol):
    """An entry of a cache."""

    @property
    def metadata(self) -> Metadata:
        """Identity and version."""
        ...

    @property
    def size(self) -> int:
        """Bytes in memory."""
        ...


EntryT = TypeVar("EntryT", bound=Entry)


def key_of(metadata: Metadata) -> Key:
    """Namespace and name."""
    return Key(metadata.namespace, metadata.name)


def model_of(metadata: Metadata) -> Key:
    """The model that a child or pod belongs to: by its controlling owner, or by its label.

    Anyone may edit labels, and a ReplicaSet controls pods. An object with neither counts by its own name,
    which the Deployment and the Service of a model share with it.
    """
    controller = next((ref for ref in metadata.owner_references if ref.controller), None)
    if controller is not None and controller.kind == MODELS.kind:
        return Key(metadata.namespace, controller.name)
    labels = metadata.labels
    named = (labels.get(label) for label in (MODEL_LABEL, WEIGHTS_LABEL, WORKERS_LABEL))
    return Key(metadata.namespace, next(filter(None, named), metadata.name))


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The result of a reconcile that applied all objects. key: signs requests to the control API."""

    key: SigningKey


class LeftOut(StrEnum):
    """The cause for which an object state is dropped."""

    UNREADABLE = "unreadable"
    NO_ROOM = "no_room"


class Cache(Generic[EntryT]):
    """Objects of one kind. An older state never replaces a newer one, in whichever order they arrive.

    An object that cannot be parsed, or for which its namespace has no memory left, is dropped.

    model_of: the model of an object.
    left_out: called for every dropped state, in the thread that reads.
    smaller: the entry to keep if there is no memory for the full one.
    following: the entry to keep for a state after the one before.
    """

    def __init__(
        self,
        read: Callable[[JsonObject], EntryT],
        *,
        budgets: NamespaceBudgets,
        model_of: Callable[[Metadata], Key] = model_of,
        left_out: Callable[[LeftOut], None] = lambda _: None,
        smaller: Callable[[EntryT, int], EntryT] | None = None,
        following: Callable[[EntryT, EntryT], EntryT] = lambda entry, _: entry,
    ) -> None:
        self._parse = read
        self._budgets = budgets
        self.model_of = model_of
        self._left_out = left_out
        self._smaller = smaller
        self._following = following
        self._entries: dict[Key, EntryT] = {}
        self._by_model: defaultdict[Key, set[Key]] = defaultdict(set)
        self._full: set[str] = set()
        self.newest = 0
        """The highest resource version that was seen."""

    def get(self, key: Key) -> EntryT | None:
        """One object."""
        return self._entries.get(key)

    def of_model(self, model: Key) -> list[EntryT]:
        """Objects that belong to this model, by name."""
        return [self._entries[key] for key in sorted(self._by_model.get(model, ()))]

    def read(self, raw: JsonObject) -> EntryT | None:
        """The entry of an object; None if it cannot be parsed. Safe on any thread."""
        try:
            return self._parse(raw)
        except Exception as error:  # noqa: BLE001 - an error in one object must not keep the others from being read
            self._left_out(LeftOut.UNREADABLE)
            log.warning("dropped an object that cannot be parsed: %s: %s", _name_in(raw), _text_of(error))
            return None

    def put(self, raw: JsonObject) -> EntryT | None:
        """Store a state. Returns None if it is not newer than the known one, or dropped."""
        entry = self.read(raw)
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
        known = self._entries.get(key)
        if known is not None and known.metadata.uid == metadata.uid:
            self._forget(key)

    def replace(
        self, entries: Iterable[EntryT], version: int, *, within: str | None, seen: int = 0
    ) -> set[Key]:
        """Replace the entries of one namespace, or of all, by a full read. Returns the models that changed.

        version: resource version of the read. A stored object with a newer version stays.
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
            present.add(key)
            known = self._entries.get(key)
            if known is not None and known.metadata.version == entry.metadata.version:
                continue
            # A read is never older than its start, unless versions went back.
            if went_back or known is None or known.metadata.version <= max(version, entry.metadata.version):
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
        known = self._entries.get(key)
        if known is not None:
            entry = self._following(entry, known)
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
    """

    def __init__(
        self,
        *,
        left_out: Callable[[LeftOut], None] = lambda _: None,
        namespace_bytes: int = NAMESPACE_BYTES,
        max_unknown_models: int = 10_000,
    ) -> None:
        self._max_unknown_models = max_unknown_models
        budgets = NamespaceBudgets(namespace_bytes)
        # A model belongs to itself, whatever its labels. Without memory, its status has the problem.
        self.models = Cache(
            StoredModel.read,
            budgets=budgets,
            model_of=key_of,
            left_out=left_out,
            smaller=StoredModel.without_content,
        )
        self.pods = Cache(StoredPod.read, budgets=budgets, left_out=left_out)
        self.children = {
            resource: Cache(
                StoredChild.read, budgets=budgets, left_out=left_out, following=StoredChild.following
            )
            for resource in WATCHED_CHILDREN
        }
        self.reconciled: dict[Key, Reconciled] = {}
        """The models whose objects this process has applied; only these are tuned."""
        self._unknown: set[Key] = set()

    def cache(self, resource: Resource) -> Cache[StoredModel] | Cache[StoredPod] | Cache[StoredChild]:
        """The cache of a kind."""
        if resource == MODELS:
            return self.models
        return self.pods if resource == PODS else self.children[resource]

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


def state_config_map(model: str) -> str:
    """Name of the ConfigMap with the tuner state."""
    return f"{model}-tuner"


def launch_config_map(model: str) -> str:
    """Name of the ConfigMap with the tuner's launch order."""
    return f"{model}-launch"


def is_tuner_state(kind: str, metadata: Metadata) -> bool:
    """Whether an object is the tuner state, which the reconciler does not use."""
    return kind == CONFIG_MAPS.kind and metadata.name == state_config_map(model_of(metadata).name)


def _name_in(raw: JsonObject) -> str:
    metadata = raw.get("metadata")
    name = (
        f"{metadata.get('namespace')}/{metadata.get('name')}"
        if isinstance(metadata, dict)
        else "without a name"
    )
    return f"{raw.get('kind', 'object')} {name}"


def _text_of(error: Exception) -> str:
    return shortened(f"{type(error).__name__}: {error}", 300)
