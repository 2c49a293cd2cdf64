"""Objects of the cluster as the operator keeps them: the fields in use, and their sizes in memory."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from pydantic import ValidationError

from outrider.api.launch import CANARY_KEY, DRAFTER_KEY, LAUNCH_KEY
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
    JsonObject,
)
from outrider.controller.kept_fields import (
    Content,
    footprint,
    json_digest,
    lean_metadata,
    share_field_names,
    texts,
)
from outrider.foreign import require_room
from outrider.foreign.readers import STATUS
from outrider.plan.names import MODEL_LABEL, WEIGHTS_LABEL, WORKERS_LABEL, schedule_config_map
from outrider.runtimes.engine_launch import SCHEDULE_FILE

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
    spec_digest: of the spec in JSON. The state after this one with the same digest is not parsed again.
    """

    metadata: Metadata
    written: JsonObject
    status: Status
    model: SpeculativeModel | None
    problem: str | None
    size: int
    spec_digest: str = ""

    @classmethod
    def read(
        cls, raw: JsonObject, before: StoredModel | None = None, metadata: Metadata | None = None
    ) -> StoredModel:
        """Parse an object; `problem` has the first error.

        before: the known state, whose spec is reused. metadata: of the object, where it is parsed already.
        """
        metadata = metadata or lean_metadata(raw)
        status = _readable_status(raw)
        written = {
            name: part for name, part in (raw.get("status") or {}).items() if name not in _TUNERS_STATUS
        }
        size = footprint(raw, most=NAMESPACE_BYTES)

        def stored(model: SpeculativeModel | None, problem: str | None, digest: str = "") -> StoredModel:
            share_field_names((metadata, status, model))
            return cls(metadata, written, status, model, problem, size, digest)

        try:
            digest = _digest_of_spec(raw)
            if before is not None and before.model is not None and digest and before.spec_digest == digest:
                return stored(before.model.with_state(raw["metadata"], status), None, digest)
            return stored(SpeculativeModel.of_stored({**raw, "status": status}), None, digest)
        except ValidationError as error:
            return stored(None, validation_message(error, raw))
        except Exception as error:  # noqa: BLE001 - an error in one object must not keep the others from being read
            log.warning("an object cannot be parsed: %s: %s", object_name(raw), error_text(error))
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


def _digest_of_spec(raw: JsonObject) -> str:
    """Digest of the spec in JSON; "" if it has none, because it is nested without end."""
    try:
        return json_digest(raw.get("spec"))
    except RecursionError:
        return ""


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
    def read(
        cls, raw: JsonObject, before: StoredChild | None = None, metadata: Metadata | None = None
    ) -> StoredChild:
        """Parse.

        before: the known state; if only the status changed, its comparison remains valid. metadata: of the
        object, where it is parsed already.
        """
        metadata = metadata or lean_metadata(raw)
        child = Child.model_validate({**raw, "metadata": metadata})
        content = Content.of(raw)
        compared = before is not None and before.content.digest == content.digest
        agrees_with = before.agrees_with if before is not None and compared else None
        if agrees_with is not None:
            content = content.known
        data: dict[str, str] = {}
        if child.kind == CONFIG_MAPS.kind:
            data = texts(raw.get("data"), *_keys_that_are_read(metadata))
        deployment = None
        if child.kind == DEPLOYMENTS.kind:
            deployment = Deployment.model_validate({**raw, "metadata": metadata})
        share_field_names((child, deployment))
        succeeded = child.kind == JOBS.kind and bool((raw.get("status") or {}).get("succeeded"))
        judged = (child if deployment is None else deployment).model_dump()
        size = footprint([judged, data, content.packed], most=NAMESPACE_BYTES)
        return cls(child, content, data, deployment, succeeded, size, agrees_with)

    def agreeing(self, applied: str) -> StoredChild:
        """The same state after a comparison with a manifest, of which only the digest is kept."""
        size = self.size - len(self.content.packed or b"")
        return replace(self, content=self.content.known, agrees_with=applied, size=size)

    @property
    def metadata(self) -> Metadata:
        """Identity."""
        return self.child.metadata


def _keys_that_are_read(metadata: Metadata) -> tuple[str, ...]:
    model = model_of(metadata).name
    if metadata.name == launch_config_map(model):
        return LAUNCH_KEY, CANARY_KEY, DRAFTER_KEY
    return (SCHEDULE_FILE,) if metadata.name == schedule_config_map(model) else ()


@dataclass(frozen=True, slots=True)
class StoredPod:
    """A pod."""

    pod: Pod
    size: int

    @classmethod
    def read(cls, raw: JsonObject, _: StoredPod | None = None, metadata: Metadata | None = None) -> StoredPod:
        """Parse. The state before does not matter. metadata: of the object, where it is parsed already."""
        pod = Pod.model_validate({**raw, "metadata": metadata or lean_metadata(raw)})
        share_field_names(pod)
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


def state_config_map(model: str) -> str:
    """Name of the ConfigMap with the tuner state."""
    return f"{model}-tuner"


def launch_config_map(model: str) -> str:
    """Name of the ConfigMap with the tuner's launch order."""
    return f"{model}-launch"


def is_tuner_state(kind: str, metadata: Metadata) -> bool:
    """Whether an object is the tuner state, which the reconciler does not use."""
    return kind == CONFIG_MAPS.kind and metadata.name == state_config_map(model_of(metadata).name)


def object_name(raw: JsonObject) -> str:
    """Kind, namespace and name, for the log; foreign objects may lack them."""
    metadata = raw.get("metadata")
    name = (
        f"{metadata.get('namespace')}/{metadata.get('name')}"
        if isinstance(metadata, dict)
        else "without a name"
    )
    return f"{raw.get('kind', 'object')} {name}"


def error_text(error: Exception) -> str:
    """Type and message of an error, shortened for the log."""
    return shortened(f"{type(error).__name__}: {error}", 300)
