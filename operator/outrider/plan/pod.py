"""The pod template of an engine: container, volumes, probes, security, and the user's overlay."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from outrider.api.resource import SpeculativeModel
from outrider.api.spec import SecretKey, Spec
from outrider.plan.artifacts import MODELS_FOLDER, claims
from outrider.plan.names import (
    CONTAINER,
    CONTROL_FOLDER,
    HOME,
    PORT_NAME,
    SCHEDULE_FILE,
    SCHEDULE_FOLDER,
    TOKEN_FILE,
    control_secret,
    labels,
    schedule_config_map,
)
from outrider.plan.overlay import Json, merge
from outrider.plan.resources import resources
from outrider.plan.runtimes import vllm
from outrider.plan.settings import PlanSettings

OWNED_VARIABLES = frozenset(
    {
        "VLLM_PLUGINS",
        "VLLM_USE_V2_MODEL_RUNNER",
        "OUTRIDER_STATIC_SCHEDULE_FILE",
        "OUTRIDER_TOKEN_FILE",
        "OUTRIDER_SELF_TEST_FILE",
    }
)
"""Another value would take the engine out of Outrider's control, or let it crash on a pushed table."""

_USER_ID = 1000
_PROBE_SECONDS = 5
_STARTUP_PROBES = 720
"""One hour: large weights from a slow hub. A rollout's own deadline reports a stall long before."""

_DRAIN_SECONDS = 5
"""Endpoints forget a stopping pod within this time, so it gets no new requests while it ends."""


def pod_template(model: SpeculativeModel, *, image: str, settings: PlanSettings) -> Json:
    """The template without revision label, overlay applied.

    Neither the static table nor the tuner's mode enters, so changing them restarts nothing.

    Raises:
        ValueError: arguments or overlay contradict the plan; the message names the field.
    """
    name = model.metadata.name
    planned: Json = {
        "metadata": {
            "labels": dict(labels(name)),
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": str(model.spec.engine.port),
                "prometheus.io/path": "/metrics",
            },
        },
        "spec": _pod_spec(model, image=image, settings=settings),
    }
    overlay = model.spec.pod_template
    if overlay is None:
        return planned
    patch: Json = {"spec": overlay.spec}
    if overlay.metadata is not None:
        patch["metadata"] = overlay.metadata.model_dump(mode="json", by_alias=True)
    _refuse_owned_fields(overlay.spec)
    try:
        return merge(planned, patch)
    except ValueError as error:
        raise ValueError(f"spec.podTemplate: {error}") from error


def _pod_spec(model: SpeculativeModel, *, image: str, settings: PlanSettings) -> Json:
    spec: Json = {
        "serviceAccountName": model.metadata.name,
        "automountServiceAccountToken": False,
        # A Service named vllm would otherwise set VLLM_PORT, which the engine reads as its own.
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER_ID,
            "runAsGroup": _USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 60,
        "containers": [_container(model, image=image)],
        "volumes": _volumes(model),
    }
    if settings.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return spec


def _container(model: SpeculativeModel, *, image: str) -> Json:
    spec = model.spec
    served_name = spec.model.served_name or model.metadata.name
    health: Json = {
        "httpGet": {"path": "/health", "port": PORT_NAME},
        "periodSeconds": _PROBE_SECONDS,
        "timeoutSeconds": _PROBE_SECONDS,
    }
    return {
        "name": CONTAINER,
        "image": image,
        "command": ["python3", "-m", "outrider_engine.launch"],
        "args": list(vllm.arguments(spec, served_name=served_name)),
        "env": _env(spec),
        "ports": [{"name": PORT_NAME, "containerPort": spec.engine.port, "protocol": "TCP"}],
        "resources": {kind: dict(amounts) for kind, amounts in resources(spec).items()},
        "startupProbe": {**health, "failureThreshold": _STARTUP_PROBES},
        "readinessProbe": {**health, "failureThreshold": 3},
        "lifecycle": {"preStop": {"sleep": {"seconds": _DRAIN_SECONDS}}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _volume_mounts(spec),
    }


def _env(spec: Spec) -> list[JsonValue]:
    plain = {
        **vllm.environment(spec),
        "OUTRIDER_STATIC_SCHEDULE_FILE": f"{SCHEDULE_FOLDER}/{SCHEDULE_FILE}",
        "OUTRIDER_TOKEN_FILE": f"{CONTROL_FOLDER}/{TOKEN_FILE}",
        # In the pod's own volume, which outlives a container that a drafter ended.
        "OUTRIDER_SELF_TEST_FILE": "/tmp/outrider-self-test.json",
        "HOME": HOME,
        # PyTorch asks for the user's name, and the image need not know this user id.
        "USER": "outrider",
    }
    variables: list[JsonValue] = [{"name": name, "value": value} for name, value in plain.items()]
    if spec.model.secret_ref is not None:
        variables.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": _key(spec.model.secret_ref)}})
    return variables


def _key(reference: SecretKey) -> Json:
    return {"name": reference.name, "key": reference.key}


def _volumes(model: SpeculativeModel) -> list[JsonValue]:
    name = model.metadata.name
    fixed: list[JsonValue] = [
        {"name": "schedule", "configMap": {"name": schedule_config_map(name)}},
        {"name": "control", "secret": {"secretName": control_secret(name)}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "home", "emptyDir": {}},
    ]
    weights: list[JsonValue] = [
        {"name": f"models-{index}", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
        for index, claim in enumerate(claims(model.spec))
    ]
    return fixed + weights


def _volume_mounts(spec: Spec) -> list[JsonValue]:
    fixed: list[JsonValue] = [
        {"name": "schedule", "mountPath": SCHEDULE_FOLDER, "readOnly": True},
        {"name": "control", "mountPath": CONTROL_FOLDER, "readOnly": True},
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "home", "mountPath": HOME},
    ]
    weights: list[JsonValue] = [
        {"name": f"models-{index}", "mountPath": f"{MODELS_FOLDER}/{claim}", "readOnly": True}
        for index, claim in enumerate(claims(spec))
    ]
    return fixed + weights


def _refuse_owned_fields(overlay: Mapping[str, JsonValue]) -> None:
    for container in _objects(overlay.get("containers")):
        if container.get("name") != CONTAINER:
            continue
        if "args" in container:
            raise ValueError("spec.podTemplate.spec.containers[engine].args: set spec.engine.args instead")
        for variable in _objects(container.get("env")):
            if variable.get("name") in OWNED_VARIABLES:
                raise ValueError(
                    f"spec.podTemplate.spec.containers[engine].env: {variable['name']} belongs to Outrider; "
                    "leave it out"
                )


def _objects(value: JsonValue) -> list[Json]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
