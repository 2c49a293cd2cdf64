"""The SpeculativeModel as a whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field

from outrider.api.base import ApiModel, rule
from outrider.api.conditions import StatusModel, Timestamp
from outrider.api.quantity import MAX_NAME_LENGTH, MODEL_NAME_PATTERN
from outrider.api.spec import Spec
from outrider.api.status import Status
from outrider.foreign import InputRefused, Reader, require_room
from outrider.foreign.readers import ENGINE_ARGS, POD_TEMPLATE, SPEC, SPECULATION_CONFIG

GROUP = "outrider.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "SpeculativeModel"
PLURAL = "speculativemodels"
SHORT_NAMES = ("specmodel", "sm")

MAX_GROUP_NAME_LENGTH = 40
"""The same where pods are named by group and by worker, and StatefulSets put a hash behind it."""


_FREE_FORM: Mapping[tuple[str, str], Reader] = {
    ("engine", "args"): ENGINE_ARGS,
    ("speculation", "config"): SPECULATION_CONFIG,
    ("podTemplate", "metadata"): POD_TEMPLATE,
    ("podTemplate", "spec"): POD_TEMPLATE,
}
"""Parts of a spec in which the API server keeps whatever is written."""


def within_limits(spec: object) -> object:
    """Check sizes and counts before types, so that the complaint names the part that is too large.

    Raises:
        ValueError: a part is too large.
    """
    for (field, part), reader in _FREE_FORM.items():
        owner = spec.get(field) if isinstance(spec, Mapping) else None
        try:
            require_room(reader, owner.get(part) if isinstance(owner, Mapping) else None)
        except InputRefused as error:
            raise ValueError(f"spec.{field}.{part}: {error}") from error
    require_room(SPEC, spec)
    return spec


class Metadata(StatusModel):
    """The part of the object's metadata that Outrider reads."""

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: list[str] = Field(default_factory=list)
    deletion_timestamp: Timestamp | None = None


class SpeculativeModel(ApiModel):
    """A large language model that is served with speculative decoding and tuned while it runs."""

    model_config = ConfigDict(extra="ignore")

    api_version: Literal["outrider.dev/v1alpha1"] = "outrider.dev/v1alpha1"
    kind: Literal["SpeculativeModel"] = "SpeculativeModel"
    metadata: Metadata
    spec: Annotated[Spec, BeforeValidator(within_limits)]
    """What is wanted."""
    status: Annotated[Status, Field(json_schema_extra={})] = Field(default_factory=Status)
    """What was observed."""

    @classmethod
    def of_stored(cls, raw: Mapping[str, object]) -> Self:
        """As the API server keeps it: unknown fields come from a newer CRD, which filled in its defaults.

        Raises:
            pydantic.ValidationError: unreadable.
        """
        return cls.model_validate(raw, extra="ignore")

    def with_state(self, metadata: Mapping[str, object], status: Status) -> Self:
        """The same spec in a later state of the object, without another look at the spec.

        Raises:
            pydantic.ValidationError: the metadata is unreadable.
        """
        later = Metadata.model_validate(metadata, extra="ignore")
        return self.model_copy(update={"metadata": later, "status": status})

    @rule(
        f"size(self.metadata.name) <= {MAX_NAME_LENGTH} && "
        f"self.metadata.name.matches('{MODEL_NAME_PATTERN}')",
        f"metadata.name: '{{metadata.name}}' does not fit; write at most {MAX_NAME_LENGTH} lower-case "
        "letters, digits and '-', with a letter first and a letter or digit last",
    )
    def _name_fits_the_children(self) -> bool:
        name = self.metadata.name
        return len(name) <= MAX_NAME_LENGTH and re.fullmatch(MODEL_NAME_PATTERN, name) is not None

    @rule(
        "!has(self.spec.model) || !has(self.spec.engine) || !has(self.spec.engine.loraAdapters) || "
        "has(self.spec.model.servedName) || "
        "self.spec.engine.loraAdapters.all(a, a.name != self.metadata.name)",
        "spec.engine.loraAdapters: clients send '{metadata.name}' for the model itself; give the adapter "
        "another name, or set spec.model.servedName",
    )
    def _its_adapters_have_other_names(self) -> bool:
        if self.spec.model.served_name is not None:
            return True
        return all(adapter.name != self.metadata.name for adapter in self.spec.engine.lora_adapters)

    @rule(
        "!has(self.spec.engine) || !has(self.spec.engine.kvTransferPeer) || "
        "self.spec.engine.kvTransferPeer != self.metadata.name",
        "spec.engine.kvTransferPeer: '{metadata.name}' is this model; name the model at the other end",
    )
    def _its_peer_is_another(self) -> bool:
        return self.spec.engine.kv_transfer_peer != self.metadata.name

    @rule(
        "!has(self.spec.inferencePool) || !has(self.spec.inferencePool.memberOf) || "
        "self.spec.inferencePool.memberOf != self.metadata.name",
        "spec.inferencePool.memberOf: '{metadata.name}' is this model; name another, or write endpointPicker",
    )
    def _its_pool_is_of_another(self) -> bool:
        pool = self.spec.inference_pool
        return pool is None or pool.member_of != self.metadata.name

    @rule(
        f"self.spec.parallelism.nodes == 1 || size(self.metadata.name) <= {MAX_GROUP_NAME_LENGTH}",
        f"metadata.name: '{{metadata.name}}' is too long for several parallelism.nodes; write at most "
        f"{MAX_GROUP_NAME_LENGTH} characters",
    )
    def _name_fits_the_groups(self) -> bool:
        return self.spec.parallelism.nodes == 1 or len(self.metadata.name) <= MAX_GROUP_NAME_LENGTH
