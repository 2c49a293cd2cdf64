"""What the tuner keeps beside a model: ConfigMaps that go with their owner."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.api.resource import API_VERSION, KIND
from outrider.cluster.ownership import Owner
from outrider.cluster.resources import CONFIG_MAPS, JsonObject
from outrider.controller.fleet import TunedModel
from outrider.plan.names import labels


def owner_of(model: TunedModel) -> Owner:
    """The model as the owner of objects."""
    return Owner(model.namespace, model.name, model.uid)


def config_map(model: TunedModel, name: str, data: Mapping[str, str]) -> JsonObject:
    """The manifest of a ConfigMap that belongs to the model."""
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": model.name,
        "uid": model.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": name,
            "namespace": model.namespace,
            "labels": labels(model.name),
            "ownerReferences": [owner],
        },
        "data": dict(data),
    }
