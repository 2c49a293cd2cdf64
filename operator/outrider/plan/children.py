"""The child objects around the pod template, one function per kind."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence

from pydantic import JsonValue

from outrider.api.json_object import Json
from outrider.api.quantity import duration_seconds
from outrider.api.request_limits import RequestLimit
from outrider.api.resource import API_VERSION, KIND, SpeculativeModel
from outrider.api.rollout import DisruptionBudget
from outrider.plan.names import (
    CANARY,
    GROUP_LABEL,
    PORT_NAME,
    PRIVATE_KEY,
    REVISION_LABEL,
    ROLE_LABEL,
    SERVICE_PORT,
    budget,
    canary_deployment,
    control_secret,
    group_set,
    labels,
    schedule_config_map,
    selector,
)
from outrider.plan.settings import ControlKeys
from outrider.runtimes.engine_launch import PUBLIC_KEY_FILE, SCHEDULE_FILE
from outrider_protocol.request_limits import LIMITS_FILE
from outrider_protocol.schedule import Schedule

Manifest = dict[str, object]


def service_account(model: SpeculativeModel) -> Manifest:
    """The pods' identity; it has no rights and no mounted token."""
    own = head(model, "v1", "ServiceAccount", model.metadata.name)
    return {**own, "automountServiceAccountToken": False}


def config_map(model: SpeculativeModel, *, keys: ControlKeys) -> Manifest:
    """What engines read: the static schedule when they start, the public key and limit rules at requests."""
    own = head(model, "v1", "ConfigMap", schedule_config_map(model.metadata.name))
    limits = limits_data(model.spec.speculation.request_limits)
    static = table_data(model.spec.static_schedule())
    return {**own, "data": {**static, PUBLIC_KEY_FILE: keys.public, **limits}}


def table_data(table: Schedule) -> dict[str, str]:
    """A static schedule in the form of the ConfigMap."""
    return {SCHEDULE_FILE: json.dumps(table.to_wire(), separators=(",", ":"))}


def limits_data(limits: Sequence[RequestLimit]) -> dict[str, str]:
    """Request limits in the form of the ConfigMap; nothing without any."""
    rules = [limit.to_rule().to_wire() for limit in limits]
    return {LIMITS_FILE: json.dumps(rules, separators=(",", ":"))} if rules else {}


def secret(model: SpeculativeModel, *, keys: ControlKeys) -> Manifest:
    """The private key with which requests to the engines' control API are signed."""
    own = head(model, "v1", "Secret", control_secret(model.metadata.name))
    private = base64.b64encode(keys.private.encode()).decode()
    return {**own, "type": "Opaque", "data": {PRIVATE_KEY: private}}


def service(model: SpeculativeModel) -> Manifest:
    """Where clients send requests."""
    own = head(model, "v1", "Service", model.metadata.name)
    port = {"name": PORT_NAME, "port": SERVICE_PORT, "targetPort": PORT_NAME, "protocol": "TCP"}
    return {**own, "spec": {"selector": selector(model.metadata.name), "ports": [port]}}


def disruption_budget(model: SpeculativeModel) -> Manifest | None:
    """What lets a drain of nodes take one pod at a time; None where one pod is all there is, or unwanted.

    Pods that are not ready may always go. They serve no requests, and a node must not wait for an engine
    that never starts.
    """
    if model.spec.replicas < 2 or model.spec.rollout.disruption_budget is DisruptionBudget.NEVER:
        return None
    name = model.metadata.name
    own = head(model, "policy/v1", "PodDisruptionBudget", budget(name))
    # A group is lost with any of its pods.
    group = {GROUP_LABEL: group_set(name)} if model.spec.parallelism.nodes > 1 else selector(name)
    spec = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": group},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return {**own, "spec": spec}


def deployment(model: SpeculativeModel, *, template: Json, revision: str, replicas: int) -> Manifest:
    """The engine pods."""
    name = model.metadata.name
    return _deployment(model, name, selector(name), template=template, revision=revision, replicas=replicas)


def canary(model: SpeculativeModel, *, template: Json, revision: str) -> Manifest:
    """The replica without speculation.

    The selector of the other Deployment, which cannot change, finds these pods, too. Neither takes the
    other's: only orphans are adopted, and every ReplicaSet and pod has a controller. The templates differ
    by a label, and so by the hash that every ReplicaSet selects by.
    """
    name = model.metadata.name
    own = {**selector(name), ROLE_LABEL: CANARY}
    return _deployment(model, canary_deployment(name), own, template=template, revision=revision, replicas=1)


def _deployment(
    model: SpeculativeModel,
    name: str,
    match_labels: dict[str, str],
    *,
    template: Json,
    revision: str,
    replicas: int,
) -> Manifest:
    rollout = model.spec.rollout
    own = head(model, "apps/v1", "Deployment", name)
    return {
        **own,
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": match_labels},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": rollout.max_surge, "maxUnavailable": rollout.max_unavailable},
            },
            "progressDeadlineSeconds": max(1, math.ceil(duration_seconds(rollout.progress_deadline))),
            "revisionHistoryLimit": 3,
            "template": with_revision(template, revision),
        },
    }


def with_revision(template: Json, revision: str) -> Json:
    """The template with the label by which its pods are known."""
    metadata = template["metadata"]
    assert isinstance(metadata, dict)
    own: JsonValue = metadata.get("labels")
    assert isinstance(own, dict)
    return {**template, "metadata": {**metadata, "labels": {**own, REVISION_LABEL: revision}}}


def owner_reference(name: str, uid: str) -> Json:
    """The model as the owner of an object, which goes with it."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def head(model: SpeculativeModel, api_version: str, kind: str, name: str) -> Manifest:
    """A child without what it is for: its kind, name, labels and owner."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": model.metadata.namespace,
            "labels": labels(model.metadata.name),
            "ownerReferences": [owner_reference(model.metadata.name, model.metadata.uid)],
        },
    }
