"""What the cluster looked like last: models, their children and pods, fed by watches and full reads."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from pydantic import ValidationError

from outrider.api.complaint import complaint
from outrider.api.resource import SpeculativeModel
from outrider.api.status import Status
from outrider.api.text import shortened
from outrider.cluster.objects import Child, Metadata, Pod
from outrider.cluster.resources import CONFIG_MAPS, MODELS, PODS, WATCHED_CHILDREN, JsonObject, Resource
from outrider.engine.signing import SigningKey
from outrider.foreign import require_room
from outrider.foreign.readers import STATUS
from outrider.plan.names import MODEL_LABEL, WEIGHTS_LABEL, WORKERS_LABEL

log = logging.getLogger(__name__)

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
    """A SpeculativeModel as it was read. Exactly one of ``model`` and ``problem`` is set."""

    metadata: Metadata
    raw: JsonObject
    status: Status
    model: SpeculativeModel | None
    problem: str | None

    @classmethod
    def read(cls, raw: JsonObject) -> StoredModel:
        """Parse; an unreadable object keeps the first complaint."""
        metadata = Metadata.model_validate(raw["metadata"])
        status = _readable_status(raw)
        try:
            model = SpeculativeModel.of_stored({**raw, "status": status})
        except ValidationError as error:
            return cls(metadata, raw, status, None, complaint(error, raw))
        except Exception as error:  # noqa: BLE001 - whatever is in one object, the others are read
            log.warning("cannot be read: %s: %s", _name_in(raw), _told(error))
            return cls(metadata, raw, status, None, _UNREADABLE)
        return cls(metadata, raw, status, model, None)


def _readable_status(raw: JsonObject) -> Status:
    try:
        require_room(STATUS, raw.get("status"))
        return Status.model_validate(raw.get("status") or {})
    except ValueError:
        # Written by hand or by another version, or too large; the next report replaces it.
        return Status()


@dataclass(frozen=True, slots=True)
class StoredChild:
    """A child: what is judged, and the whole object for comparison with the plan."""

    child: Child
    raw: JsonObject

    @classmethod
    def read(cls, raw: JsonObject) -> StoredChild:
        """Parse; who manages which field is kept by name only."""
        metadata = {key: value for key, value in raw["metadata"].items() if key != "managedFields"}
        return cls(Child.model_validate(raw), {**raw, "metadata": metadata})

    @property
    def metadata(self) -> Metadata:
        """Identity."""
        return self.child.metadata


@dataclass(frozen=True, slots=True)
class StoredPod:
    """A pod."""

    pod: Pod

    @classmethod
    def read(cls, raw: JsonObject) -> StoredPod:
        """Parse."""
        return cls(Pod.model_validate(raw))

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


class Cache(Generic[EntryT]):
    """Objects of one kind. An older state never replaces a newer one, whatever order they arrive in.

    An object that cannot be read is left out, and keeps no other one from being read.

    model_of: the model that an object belongs to.
    left_out: called for every state that could not be read.
    """

    def __init__(
        self,
        read: Callable[[JsonObject], EntryT],
        *,
        model_of: Callable[[Metadata], Key] = model_of,
        left_out: Callable[[], None] = lambda: None,
    ) -> None:
        self._read = read
        self.model_of = model_of
        self._left_out = left_out
        self._entries: dict[Key, EntryT] = {}
        self._by_model: defaultdict[Key, set[Key]] = defaultdict(set)

    def get(self, key: Key) -> EntryT | None:
        """One object."""
        return self._entries.get(key)

    def of_model(self, model: Key) -> list[EntryT]:
        """Objects that belong to this model, by name."""
        return [self._entries[key] for key in sorted(self._by_model.get(model, ()))]

    def put(self, raw: JsonObject) -> EntryT | None:
        """Store a state; None when it is not newer than the known one, or unreadable."""
        entry = self._readable(raw)
        return entry if entry is not None and self._keep(entry) else None

    def drop(self, metadata: Metadata) -> None:
        """Forget a deleted object, unless another one has taken its name."""
        key = key_of(metadata)
        known = self._entries.get(key)
        if known is not None and known.metadata.uid == metadata.uid:
            self._forget(key)

    def replace(self, raws: Iterable[JsonObject], version: int, *, within: str | None) -> set[Key]:
        """Take a full read of one namespace, or of all; answers the models concerned by a difference.

        version: resource version of the read. An object that is stored in a newer state stays.
        """
        present: set[Key] = set()
        concerned: set[Key] = set()
        for entry in filter(None, map(self._readable, raws)):
            present.add(key_of(entry.metadata))
            if self._keep(entry):
                concerned.add(self.model_of(entry.metadata))
        for key, entry in list(self._entries.items()):
            covered = within in (None, key.namespace) and entry.metadata.version <= version
            if covered and key not in present:
                concerned.add(self.model_of(entry.metadata))
                self._forget(key)
        return concerned

    def _readable(self, raw: JsonObject) -> EntryT | None:
        try:
            return self._read(raw)
        except Exception as error:  # noqa: BLE001 - whatever is in one object, the others are read
            self._left_out()
            log.warning("left out, since it cannot be read: %s: %s", _name_in(raw), _told(error))
            return None

    def _keep(self, entry: EntryT) -> bool:
        """False when it is not newer than the known state."""
        key = key_of(entry.metadata)
        known = self._entries.get(key)
        if known is not None and known.metadata.version >= entry.metadata.version:
            return False
        self._forget(key)
        self._entries[key] = entry
        self._by_model[self.model_of(entry.metadata)].add(key)
        return True

    def _forget(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
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

    left_out: called for every object that could not be read.
    """

    def __init__(self, *, left_out: Callable[[], None] = lambda: None) -> None:
        # A model belongs to itself, whatever its labels say.
        self.models = Cache(StoredModel.read, model_of=key_of, left_out=left_out)
        self.pods = Cache(StoredPod.read, left_out=left_out)
        self.children = {
            resource: Cache(StoredChild.read, left_out=left_out) for resource in WATCHED_CHILDREN
        }
        self.keys: dict[Key, SigningKey] = {}

    def cache(self, resource: Resource) -> Cache[StoredModel] | Cache[StoredPod] | Cache[StoredChild]:
        """Where objects of a kind are kept."""
        if resource == MODELS:
            return self.models
        return self.pods if resource == PODS else self.children[resource]

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
