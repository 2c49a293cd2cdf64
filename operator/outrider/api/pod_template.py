"""``spec.podTemplate``: changes of users to the pods that Outrider creates."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, JsonValue, WithJsonSchema
from pydantic.config import JsonDict

from outrider.api.base import ApiModel, rule
from outrider.api.quantity import LabelValue
from outrider.foreign import within
from outrider.foreign.readers import POD_TEMPLATE


class TemplateMetadata(ApiModel):
    """Labels and annotations that are added to the pods."""

    labels: Annotated[dict[str, LabelValue], Field(max_length=64)] = Field(default_factory=dict)
    """Added to the pods."""
    annotations: Annotated[dict[str, str], Field(max_length=64)] = Field(default_factory=dict)
    """Added to the pods."""

    @rule(
        "!has(self.labels) || self.labels.all(key, !key.startsWith('outrider.dev/'))",
        "spec.podTemplate.metadata.labels: keys of outrider.dev/ belong to Outrider; use another prefix",
        field=".labels",
    )
    def _own_labels_are_untouched(self) -> bool:
        return not any(key.startswith("outrider.dev/") for key in self.labels)


ENGINE = "engine"
"""Name of the engine's container."""

_CONTAINER_SCHEMA: JsonDict = {
    "type": "object",
    "description": "A partial Container.",
    "properties": {
        "name": {"type": "string", "maxLength": 63, "description": "The engine's is `engine`."},
        "image": {
            "type": "string",
            "maxLength": 512,
            "description": "Needed by every container but the engine.",
        },
    },
    "x-kubernetes-preserve-unknown-fields": True,
}
# CEL rules see only declared fields; the API server checks all other fields of a pod.
_OVERLAY_SCHEMA: JsonDict = {
    "type": "object",
    "properties": {
        "containers": {
            "type": "array",
            "maxItems": 64,
            "description": "Changes of the engine's container, and containers beside it.",
            "items": _CONTAINER_SCHEMA,
        }
    },
    "x-kubernetes-preserve-unknown-fields": True,
}


class PodTemplate(ApiModel):
    """An overlay on the pod, merged as by a strategic-merge patch. The engine's container is `engine`."""

    metadata: TemplateMetadata | None = None
    """Labels and annotations of the pods."""
    spec: Annotated[
        dict[str, JsonValue], BeforeValidator(within(POD_TEMPLATE)), WithJsonSchema(_OVERLAY_SCHEMA)
    ] = Field(default_factory=dict)
    """A partial PodSpec. Lists merge by name (volumeMounts by mountPath, ports by containerPort).
    `$patch: delete` in an entry deletes it from its list, and `runAsUser: {$patch: delete}` deletes a field.
    null also deletes a field, but some clients drop it before they send the object: `kubectl apply` without
    `--server-side`, and Argo CD without ServerSideApply."""

    @rule(
        "!has(self.spec) || !has(self.spec.containers) || self.spec.containers.all(container, "
        f"has(container.image) || (has(container.name) && container.name == '{ENGINE}'))",
        f"spec.podTemplate.spec.containers: the engine's container is named {ENGINE}; a container of another "
        "name is one more beside it, and needs an image",
        field=".spec",
    )
    def _other_containers_have_an_image(self) -> bool:
        containers = self.spec.get("containers")
        objects = [c for c in containers if isinstance(c, dict)] if isinstance(containers, list) else []
        return all(c.get("image") is not None or c.get("name") == ENGINE for c in objects)
