"""What the cluster looked like last: models, their children and pods, fed by watches and full reads."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

from pydantic import ValidationError

from outrider.api.launch import CANARY_KEY, LAUNCH_KEY
from outrider.api.mistakes import complaint
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
from outrider.controller.kept import Content, NamespaceBudgets, footprint, lean_metadata, texts
from outrider.engine.signing import SigningKey
from outrider.foreign import require_room
from outrider.foreign.readers import STATUS
from outrider.plan.names import (
    MODEL_LABEL,
    SCHEDULE_FILE,
    WEIGHTS_LABEL,
    WORKERS_LABEL,
    schedule_config_map,
)

log = logging.getLogger(__name__)

NAMESPACE_BYTES = 96 * 2**20
"""In memory, of all that is kept of one namespace."""
_MOST_UNKNOWN_MODELS = 10_000
_TUNERS_STATUS = ("speculation", "decisions")

_NO_ROOM = (
    "the objects of namespace {namespace} that the operator keeps take more than {most} MiB of its memory, "
    "so this model is not served; delete what is not needed, such as large objects with the label {label}"
)
_UNREADABLE = "the object cannot be read; write it plainer. The operator's log has the cause"

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
    """A SpeculativeModel as it was read. Exactly one of ``model`` and ``problem`` is set.

    written: the status as it is stored, without the tuner's part.
    size: bytes in memory, or somewhat more than there is room for.
    """

    metadata: Metadata
    written: JsonObject
    status: Status
    model: SpeculativeModel | None
    problem: str | None
    size: int

    @classmethod
    def read(cls, raw: JsonObject) -> StoredModel:
        """Parse; an unreadable object keeps the first complaint."""
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
            return stored(None, complaint(error, raw))
        except Exception as error:  # noqa: BLE001 - whatever is in one object, the others are read
            log.warning("cannot be read: %s: %s", _name_in(raw), _told(error))
            return stored(None, _UNREADABLE)

    def without_content(self, most: int) -> StoredModel:
        """What is kept where its namespace has used up its room: who it is, and what it is to be told."""
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
        # Written by hand or by another version, or too large; the next report replaces it.
        return Status()


@dataclass(frozen=True, slots=True)
class StoredChild:
    """A child: what is judged, and what it is compared with the plan by.

    data: entries of a ConfigMap that the operator reads. deployment: of a Deployment. succeeded: of a Job.
    agrees_with: digest of the manifest that the content was compared with and agrees with.
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
        """The same state, compared with a manifest: its digest is all that is needed from here on."""
        size = self.size - len(self.content.packed or b"")
        return replace(self, content=self.content.known, agrees_with=applied, size=size)

    def following(self, before: StoredChild) -> StoredChild:
        """This state after another one: where only the status changed, what was compared stays compared."""
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
    """Anything that a cache keeps."""

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

    Labels can be edited by anyone, and pods are controlled by a ReplicaSet. What has neither is filed
    under its own name, which the Deployment and the Service of a model share with it.
    """
    controller = next((ref for ref in metadata.owner_references if ref.controller), None)
    if controller is not None and controller.kind == MODELS.kind:
        return Key(metadata.namespace, controller.name)
    labels = metadata.labels
    named = (labels.get(label) for label in (MODEL_LABEL, WEIGHTS_LABEL, WORKERS_LABEL))
    return Key(metadata.namespace, next(filter(None, named), metadata.name))


class LeftOut(StrEnum):
    """Why a state of an object is not kept."""

    UNREADABLE = "unreadable"
    NO_ROOM = "no_room"


class Cache(Generic[EntryT]):
    """Objects of one kind. An older state never replaces a newer one, whatever order they arrive in.

    An object that cannot be read is left out, and keeps no other one from being read. So is one for which its
    namespace has no room.

    model_of: the model that an object belongs to.
    left_out: called for every state that is not kept, in the thread that reads.
    smaller: what is kept in place of an entry without room.
    following: what is kept of a state, given the one before.
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
        """The newest resource version that was seen."""

    def get(self, key: Key) -> EntryT | None:
        """One object."""
        return self._entries.get(key)

    def of_model(self, model: Key) -> list[EntryT]:
        """Objects that belong to this model, by name."""
        return [self._entries[key] for key in sorted(self._by_model.get(model, ()))]

    def read(self, raw: JsonObject) -> EntryT | None:
        """What would be kept of an object; None where it cannot be read. For any thread."""
        try:
            return self._parse(raw)
        except Exception as error:  # noqa: BLE001 - whatever is in one object, the others are read
            self._left_out(LeftOut.UNREADABLE)
            log.warning("left out, since it cannot be read: %s: %s", _name_in(raw), _told(error))
            return None

    def put(self, raw: JsonObject) -> EntryT | None:
        """Store a state; None when it is not newer than the known one, or not kept."""
        entry = self.read(raw)
        return None if entry is None else self.keep(entry)

    def keep(self, entry: EntryT) -> EntryT | None:
        """Store what was read; None when it is not newer than the known state, or there is no room for it."""
        known = self._entries.get(key_of(entry.metadata))
        if known is not None and known.metadata.version >= entry.metadata.version:
            return None
        return self._store(entry)

    def improve(self, entry: EntryT) -> None:
        """Put another form of the very state that is stored in its place."""
        key = key_of(entry.metadata)
        known = self._entries.get(key)
        if known is not None and known.metadata.resource_version == entry.metadata.resource_version:
            self._store(entry)

    def drop(self, metadata: Metadata) -> None:
        """Forget a deleted object, unless another one has taken its name."""
        key = key_of(metadata)
        known = self._entries.get(key)
        if known is not None and known.metadata.uid == metadata.uid:
            self._forget(key)

    def replace(
        self, entries: Iterable[EntryT], version: int, *, within: str | None, seen: int = 0
    ) -> set[Key]:
        """Take a full read of one namespace, or of all; answers the models concerned by a difference.

        version: resource version of the read. An object that is stored in a newer state stays.
        seen: `newest` as it was when the read began. A read that is older than that comes from an API server
        whose versions went back, as after a restored backup: then the read holds, whatever is stored.
        """
        went_back = version < seen
        if went_back:
            log.warning(
                "resource versions went back from %d to %d, as after a backup was restored: read anew",
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
            # A read never shows less than what was there when it began, unless versions went back.
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
                "left out, for want of room for its namespace, of which %d MiB are kept: %s",
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
    """All that is watched, and the keys of control APIs that reconcile has read.

    left_out: called for every object that is not kept.
    namespace_bytes: that may be kept of one namespace.
    """

    def __init__(
        self,
        *,
        left_out: Callable[[LeftOut], None] = lambda _: None,
        namespace_bytes: int = NAMESPACE_BYTES,
    ) -> None:
        budgets = NamespaceBudgets(namespace_bytes)
        # A model belongs to itself, whatever its labels say. One without room is told of it in its status.
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
        self.keys: dict[Key, SigningKey] = {}
        self._unknown: set[Key] = set()

    def cache(self, resource: Resource) -> Cache[StoredModel] | Cache[StoredPod] | Cache[StoredChild]:
        """Where objects of a kind are kept."""
        if resource == MODELS:
            return self.models
        return self.pods if resource == PODS else self.children[resource]

    def of_a_model(self, resource: Resource, metadata: Metadata) -> bool:
        """Whether an object is a model or belongs to one that is known. What does not is not kept.

        For any thread.
        """
        if resource == MODELS:
            return True
        model = model_of(metadata)
        if self.models.get(model) is not None:
            return True
        if len(self._unknown) < _MOST_UNKNOWN_MODELS:
            self._unknown.add(model)
        return self.models.get(model) is not None

    def was_missed(self, model: Key) -> bool:
        """Whether objects of this model were left out before it was known; the next full read finds them."""
        return model in self._unknown or len(self._unknown) >= _MOST_UNKNOWN_MODELS

    def forget_missed(self) -> None:
        """A full read begins."""
        self._unknown.clear()

    def pods_of(self, model: Key) -> tuple[Pod, ...]:
        """All engine pods of a model that serve or are to, by name; of a group it is the leader."""
        others = {WEIGHTS_LABEL, WORKERS_LABEL}
        return tuple(pod for pod in self._pods(model) if others.isdisjoint(pod.metadata.labels))

    def workers_of(self, model: Key) -> tuple[Pod, ...]:
        """All pods that compute for a leader on another node, by name."""
        return tuple(pod for pod in self._pods(model) if WORKERS_LABEL in pod.metadata.labels)

    def downloads_of(self, model: Key) -> tuple[Pod, ...]:
        """All pods that download weights of a model, by name."""
        return tuple(pod for pod in self._pods(model) if WEIGHTS_LABEL in pod.metadata.labels)

    def _pods(self, model: Key) -> tuple[Pod, ...]:
        return tuple(stored.pod for stored in self.pods.of_model(model))


def state_config_map(model: str) -> str:
    """Name of the ConfigMap in which the tuner keeps what it knows."""
    return f"{model}-tuner"


def launch_config_map(model: str) -> str:
    """Name of the ConfigMap with the tuner's order about the launch of engines."""
    return f"{model}-launch"


def is_tuner_state(kind: str, metadata: Metadata) -> bool:
    """Whether this is what the tuner knows, in which reconcile has no interest."""
    return kind == CONFIG_MAPS.kind and metadata.name == state_config_map(model_of(metadata).name)


def _name_in(raw: JsonObject) -> str:
    metadata = raw.get("metadata")
    name = f"{metadata.get('namespace')}/{metadata.get('name')}" if isinstance(metadata, dict) else "nameless"
    return f"{raw.get('kind', 'object')} {name}"


def _told(error: Exception) -> str:
    return shortened(f"{type(error).__name__}: {error}", 300)
