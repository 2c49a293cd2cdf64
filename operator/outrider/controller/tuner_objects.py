"""What the tuner keeps beside a model: ConfigMaps that go with their owner."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.cluster.ownership import Owner
from outrider.cluster.resources import CONFIG_MAPS, JsonObject
from outrider.controller.tune.fleet import TunedModel
from outrider.plan.children import owner_reference
from outrider.plan.names import labels


def owner_of(model: TunedModel) -> Owner:
    """The model as the owner of objects."""
    return Owner(model.namespace, model.name, model.uid)


def config_map(model: TunedModel, name: str, data: Mapping[str, str]) -> JsonObject:
    """The manifest of a ConfigMap that belongs to the model."""
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": name,
            "namespace": model.namespace,
            "labels": labels(model.name),
            "ownerReferences": [owner_reference(model.name, model.uid)],
        },
        "data": dict(data),
    }
