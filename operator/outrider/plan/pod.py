"""The pod template of an engine: container, volumes, probes, security, and the user's overlay."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from outrider.api.launch import ANNOTATION
from outrider.api.resource import SpeculativeModel
from outrider.api.spec import SecretKey
from outrider.plan.artifacts import MODELS_FOLDER, claims
from outrider.plan.engine_launch import EngineLaunch, Role
from outrider.plan.names import (
    CANARY,
    CONTAINER,
    HOME,
    PORT_NAME,
    PUBLIC_KEY_FILE,
    ROLE_LABEL,
    SCHEDULE_FILE,
    SCHEDULE_FOLDER,
    labels,
    schedule_config_map,
)
from outrider.plan.overlay import Json, merge
from outrider.plan.owned_parts import keep_owned_parts
from outrider.plan.resources import resources
from outrider.plan.runtimes import vllm
from outrider.plan.settings import PlanSettings

_PLUGIN_VARIABLES: Mapping[str, str] = {
    "OUTRIDER_STATIC_SCHEDULE_FILE": f"{SCHEDULE_FOLDER}/{SCHEDULE_FILE}",
    "OUTRIDER_PUBLIC_KEY_FILE": f"{SCHEDULE_FOLDER}/{PUBLIC_KEY_FILE}",
    # In the pod's own volume, which outlives a container that a drafter ended.
    "OUTRIDER_SELF_TEST_FILE": "/tmp/outrider-self-test.json",
    "OUTRIDER_DRAIN_FILE": "/tmp/outrider-drain",
}

_POD_UID_VARIABLE = "OUTRIDER_POD_UID"

OWNED_VARIABLES = frozenset(
    {"VLLM_PLUGINS", "VLLM_USE_V2_MODEL_RUNNER", _POD_UID_VARIABLE, *_PLUGIN_VARIABLES}
)
"""Another value would take the engine out of Outrider's control, or let it crash on a pushed table."""

_WITH_PLUGIN = ("python3", "-m", "outrider_engine.launch")
_DRAIN = ("python3", "-m", "outrider_engine.drain")
_STOCK = ("python3", "-m", "vllm.entrypoints.openai.api_server")

_USER_ID = 1000
_PROBE_SECONDS = 5
_STARTUP_PROBES = 720
"""One hour: large weights from a slow hub. A rollout's own deadline reports a stall long before."""
_READINESS_PROBES = 3
_LIVENESS_PROBES = 24
"""Two minutes: an engine that does not end by itself when its core died never comes back, but loading it
again is dear, so a server that is only slow gets its time."""

_HEALTH = "/health"
_READINESS = "/health?readiness"
"""The plugin answers 503 here while the pod drains; without it this is `_HEALTH`."""

_FORGET_SECONDS = 5
"""Endpoints forget a stopping pod within this time; until then new connections come."""
_DRAIN_SECONDS = 30
"""At most, beside the time of requests that run long: until then a stopping pod waits for its clients to
go elsewhere. A client does so with its next answer, and vLLM closes a connection that is idle for 5 s."""
_STOCK_DRAIN_SECONDS = 15
"""Always: a stock engine cannot send clients away. Those whose connections are idle for 5 s in a row,
or no older than 10 s, have left by then."""
_END_SECONDS = 10
"""What an engine takes to end once its requests have."""


def pod_template(
    model: SpeculativeModel, launch: EngineLaunch, *, image: str, settings: PlanSettings
) -> Json:
    """The template without revision label, overlay applied.

    Where a table can be pushed neither the static table nor the tuner's mode enters, so changing them
    restarts nothing.

    Raises:
        ValueError: arguments or overlay contradict the plan; the message names the field.
    """
    name = model.metadata.name
    planned: Json = {
        "metadata": {
            "labels": _labels(name, launch.role),
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": str(model.spec.engine.port),
                "prometheus.io/path": "/metrics",
            },
        },
        "spec": _pod_spec(model, launch, image=image, settings=settings),
    }
    overlay = model.spec.pod_template
    if overlay is None:
        return _annotated(planned, launch)
    patch: Json = {"spec": overlay.spec}
    if overlay.metadata is not None:
        patch["metadata"] = overlay.metadata.model_dump(mode="json", by_alias=True)
    try:
        merged = merge(planned, patch)
        keep_owned_parts(planned, merged, variables=OWNED_VARIABLES)
    except ValueError as error:
        raise ValueError(f"spec.podTemplate: {error}") from error
    return _annotated(merged, launch)


def _labels(model: str, role: Role) -> Json:
    return {**labels(model), **({ROLE_LABEL: CANARY} if role is Role.CANARY else {})}


def _annotated(template: Json, launch: EngineLaunch) -> Json:
    """With what the pod tells of its launch, whatever the overlay says there."""
    metadata = template["metadata"]
    assert isinstance(metadata, dict)
    own = metadata.get("annotations")
    assert isinstance(own, dict)
    others = {key: value for key, value in own.items() if key != ANNOTATION}
    text = str(launch.launch)
    told: Json = {ANNOTATION: text} if text else {}
    return {**template, "metadata": {**metadata, "annotations": {**others, **told}}}


def _pod_spec(model: SpeculativeModel, launch: EngineLaunch, *, image: str, settings: PlanSettings) -> Json:
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
        "terminationGracePeriodSeconds": (_STOCK_DRAIN_SECONDS if launch.stock else _DRAIN_SECONDS)
        + vllm.shutdown_timeout(launch.spec.engine.args)
        + _END_SECONDS,
        "containers": [_container(model, launch, image=image)],
        "volumes": _volumes(model, launch),
    }
    if settings.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return spec


def _container(model: SpeculativeModel, launch: EngineLaunch, *, image: str) -> Json:
    spec = launch.spec
    served_name = spec.model.served_name or model.metadata.name
    return {
        "name": CONTAINER,
        "image": image,
        "command": list(_STOCK if launch.stock else _WITH_PLUGIN),
        "args": list(vllm.arguments(spec, served_name=served_name, table=launch.table)),
        "env": _env(launch),
        "ports": [{"name": PORT_NAME, "containerPort": spec.engine.port, "protocol": "TCP"}],
        "resources": {kind: dict(amounts) for kind, amounts in resources(spec).items()},
        "startupProbe": _probe(_HEALTH, _STARTUP_PROBES),
        "readinessProbe": _probe(_HEALTH if launch.stock else _READINESS, _READINESS_PROBES),
        "livenessProbe": _probe(_HEALTH, _LIVENESS_PROBES),
        "lifecycle": {"preStop": _pre_stop(launch)},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _volume_mounts(launch),
    }


def _probe(path: str, failure_threshold: int) -> Json:
    return {
        "httpGet": {"path": path, "port": PORT_NAME},
        "periodSeconds": _PROBE_SECONDS,
        "timeoutSeconds": _PROBE_SECONDS,
        "failureThreshold": failure_threshold,
    }


def _pre_stop(launch: EngineLaunch) -> Json:
    """What comes before SIGTERM, at which vLLM stops taking requests at once."""
    if launch.stock:
        return {"sleep": {"seconds": _STOCK_DRAIN_SECONDS}}
    # Requests have their time before SIGTERM, too: only until then does the next one on the same
    # connection get an answer, and with it the word to go elsewhere.
    at_most = _DRAIN_SECONDS + vllm.shutdown_timeout(launch.spec.engine.args)
    limits = {"port": launch.spec.engine.port, "at-least": _FORGET_SECONDS, "at-most": at_most}
    flags = [word for flag, value in limits.items() for word in (f"--{flag}", str(value))]
    return {"exec": {"command": [*_DRAIN, *flags]}}


def _env(launch: EngineLaunch) -> list[JsonValue]:
    spec = launch.spec
    plain = {
        **vllm.environment(spec, plugins=vllm.NO_PLUGINS if launch.stock else vllm.PLUGINS),
        **({} if launch.stock else _PLUGIN_VARIABLES),
        "HOME": HOME,
        # PyTorch asks for the user's name, and the image need not know this user id.
        "USER": "outrider",
    }
    variables: list[JsonValue] = [{"name": name, "value": value} for name, value in plain.items()]
    if not launch.stock:
        # Requests are signed for one pod, by its UID, which no other pod ever has.
        uid: Json = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}
        variables.append({"name": _POD_UID_VARIABLE, "valueFrom": uid})
    if spec.model.secret_ref is not None:
        variables.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": _key(spec.model.secret_ref)}})
    return variables


def _key(reference: SecretKey) -> Json:
    return {"name": reference.name, "key": reference.key}


def _volumes(model: SpeculativeModel, launch: EngineLaunch) -> list[JsonValue]:
    name = model.metadata.name
    plugin: list[JsonValue] = [{"name": "schedule", "configMap": {"name": schedule_config_map(name)}}]
    fixed: list[JsonValue] = [
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "home", "emptyDir": {}},
    ]
    weights: list[JsonValue] = [
        {"name": f"models-{index}", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
        for index, claim in enumerate(claims(launch.spec))
    ]
    return (fixed if launch.stock else plugin + fixed) + weights


def _volume_mounts(launch: EngineLaunch) -> list[JsonValue]:
    plugin: list[JsonValue] = [{"name": "schedule", "mountPath": SCHEDULE_FOLDER, "readOnly": True}]
    fixed: list[JsonValue] = [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "home", "mountPath": HOME},
    ]
    weights: list[JsonValue] = [
        {"name": f"models-{index}", "mountPath": f"{MODELS_FOLDER}/{claim}", "readOnly": True}
        for index, claim in enumerate(claims(launch.spec))
    ]
    return (fixed if launch.stock else plugin + fixed) + weights
