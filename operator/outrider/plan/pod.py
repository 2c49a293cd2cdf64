"""The pod template of an engine: container, volumes, probes, security, and the user's overlay."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from outrider.api.json_object import Json
from outrider.api.launch import ANNOTATION
from outrider.api.model import SecretKey
from outrider.api.resource import SpeculativeModel
from outrider.api.spec import Spec
from outrider.plan.inference_pool import pool_label
from outrider.plan.names import (
    CANARY,
    CONTAINER,
    CONTROL_PORT_NAME,
    HOME,
    PORT_NAME,
    ROLE_LABEL,
    labels,
    schedule_config_map,
    worker_labels,
)
from outrider.plan.network_policy import control_port
from outrider.plan.overlay import merge
from outrider.plan.owned_parts import keep_owned_parts, with_lists_joined
from outrider.plan.plugin import with_plugin
from outrider.plan.settings import PlanSettings
from outrider.runtimes import runtime_of
from outrider.runtimes.artifacts import MODELS_FOLDER, claims, image_folder, images, uses_hub
from outrider.runtimes.engine_launch import SCHEDULE_FOLDER, EngineLaunch, Role
from outrider.runtimes.resources import device_claims, resources, shared_memory
from outrider.runtimes.runtime import EngineContainer, EngineImage

_TMP_SIZE = "10Gi"
_CACHES_SIZE = "20Gi"
"""Compiled kernels and graphs of an engine, which are some hundred MB each; a node's disk is for all pods."""
_USER_ID = 1000
"""User of the engine images."""
_PROBE_SECONDS = 5
_STARTUP_PROBES = 720
"""One hour: large weights from a slow hub. A rollout's own deadline reports a stall long before."""
_READINESS_PROBES = 3
_LIVENESS_PROBES = 24
"""Two minutes. An engine whose core died may never end, but loading a slow one again takes long."""


def pod_template(
    model: SpeculativeModel, launch: EngineLaunch, *, image: EngineImage, settings: PlanSettings
) -> Json:
    """The template without revision label, overlay applied.

    An image that lacks the plugin gets it from that of the settings, where the launch runs it.

    Where a schedule can be pushed, neither the static schedule nor the tuner's mode enters. So changing them
    restarts nothing.

    Raises:
        ValueError: arguments or overlay contradict the plan; the message names the field.
    """
    engine = runtime_of(launch.spec).container(launch, served_name=_served_name(model))
    planned: Json = {
        "metadata": _metadata(model, engine, launch.role),
        "spec": _pod_spec(model, launch, engine, image=image, settings=settings),
    }
    overlay = model.spec.pod_template
    if overlay is None:
        return _annotated(planned, launch)
    patch: Json = {"spec": overlay.spec}
    if overlay.metadata is not None:
        patch["metadata"] = overlay.metadata.model_dump(mode="json", by_alias=True)
    runtime = runtime_of(model.spec)
    try:
        patch = with_lists_joined(planned, patch, runtime.joined_variables)
        merged = merge(planned, patch)
        keep_owned_parts(planned, merged, variables=runtime.owned_variables, joined=runtime.joined_variables)
    except ValueError as error:
        raise ValueError(f"spec.podTemplate: {error}") from error
    return _annotated(merged, launch)


def _metadata(model: SpeculativeModel, engine: EngineContainer, role: Role) -> Json:
    name = model.metadata.name
    if role is Role.WORKER:
        return {"labels": {**worker_labels(name)}, "annotations": {}}
    pool = pool_label(model, role)
    return {
        "labels": {
            **labels(name),
            **({ROLE_LABEL: CANARY} if role is Role.CANARY else {}),
            **({**pool, **engine.picker_labels} if pool else {}),
        },
        "annotations": {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(model.spec.engine.port),
            "prometheus.io/path": "/metrics",
        },
    }


def _annotated(template: Json, launch: EngineLaunch) -> Json:
    """The template with the annotation of its launch, whatever the overlay says there."""
    metadata = template["metadata"]
    assert isinstance(metadata, dict)
    own = metadata.get("annotations")
    assert isinstance(own, dict)
    others = {key: value for key, value in own.items() if key != ANNOTATION}
    text = str(launch.launch)
    ours: Json = {ANNOTATION: text} if text else {}
    return {**template, "metadata": {**metadata, "annotations": {**others, **ours}}}


def _pod_spec(
    model: SpeculativeModel,
    launch: EngineLaunch,
    engine: EngineContainer,
    *,
    image: EngineImage,
    settings: PlanSettings,
) -> Json:
    control = _Control.of(launch.spec, engine, settings)
    spec: Json = {
        "serviceAccountName": model.metadata.name,
        "automountServiceAccountToken": False,
        # A Service named vllm would otherwise set VLLM_PORT, which the engine reads as its own.
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            **({"runAsUser": _USER_ID, "runAsGroup": _USER_ID} if settings.fixed_user else {}),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": engine.seconds_to_end,
        "containers": [_container(launch, engine, image=image.reference, control=control)],
        "volumes": _volumes(model, launch),
    }
    claims = device_claims(model.spec)
    if claims:
        spec["resourceClaims"] = [
            {"name": claim.name, "resourceClaimTemplateName": claim.resource_claim_template_name}
            for claim in claims
        ]
    if settings.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    if image.has_plugin or not engine.runs_plugin:
        return spec
    return with_plugin(spec, container=CONTAINER, image=settings.image_of_plugin())


@dataclass(frozen=True, slots=True)
class _Control:
    """The port of the control API, where it has one of its own."""

    variable: str
    port: int

    @classmethod
    def of(cls, spec: Spec, engine: EngineContainer, settings: PlanSettings) -> _Control | None:
        """None where the engine has no such API, or serves it to everybody."""
        if settings.control_peers is None or engine.control_port_variable is None:
            return None
        return cls(engine.control_port_variable, control_port(spec))


def _served_name(model: SpeculativeModel) -> str:
    return model.spec.model.served_name or model.metadata.name


def _container(
    launch: EngineLaunch, engine: EngineContainer, *, image: str, control: _Control | None
) -> Json:
    spec = launch.spec
    return {
        "name": CONTAINER,
        "image": image,
        "command": list(engine.command),
        "args": list(engine.arguments),
        "env": _env(spec, engine, control),
        **_ports(spec, engine, control),
        "resources": _resources(spec),
        **_probes(engine),
        **({} if engine.pre_stop is None else {"lifecycle": {"preStop": engine.pre_stop}}),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _volume_mounts(launch),
    }


def _ports(spec: Spec, engine: EngineContainer, control: _Control | None) -> Json:
    if engine.health_path is None:
        return {}
    ports = [(PORT_NAME, spec.engine.port), *([] if control is None else [(CONTROL_PORT_NAME, control.port)])]
    return {"ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports]}


def _probes(engine: EngineContainer) -> Json:
    if engine.health_path is None or engine.readiness_path is None:
        return {}
    return {
        "startupProbe": _probe(engine.health_path, _STARTUP_PROBES),
        "readinessProbe": _probe(engine.readiness_path, _READINESS_PROBES),
        "livenessProbe": _probe(engine.health_path, _LIVENESS_PROBES),
    }


def _resources(spec: Spec) -> Json:
    amounts: Json = {kind: dict(amounts) for kind, amounts in resources(spec).items()}
    claims: list[JsonValue] = [{"name": claim.name} for claim in device_claims(spec)]
    return {**amounts, "claims": claims} if claims else amounts


def _probe(path: str, failure_threshold: int) -> Json:
    return {
        "httpGet": {"path": path, "port": PORT_NAME},
        "periodSeconds": _PROBE_SECONDS,
        "timeoutSeconds": _PROBE_SECONDS,
        "failureThreshold": failure_threshold,
    }


def _env(spec: Spec, engine: EngineContainer, control: _Control | None) -> list[JsonValue]:
    plain = {
        **engine.environment,
        "HOME": HOME,
        # PyTorch asks for the user's name, and the image need not know this user id.
        "USER": "outrider",
        **({} if control is None else {control.variable: str(control.port)}),
    }
    variables: list[JsonValue] = [{"name": name, "value": value} for name, value in plain.items()]
    if engine.pod_uid_variable is not None:
        uid: Json = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}
        variables.append({"name": engine.pod_uid_variable, "valueFrom": uid})
    if engine.address_variable is not None:
        address: Json = {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}
        variables.append({"name": engine.address_variable, "valueFrom": address})
    if spec.model.secret_ref is not None:
        variables.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": _key(spec.model.secret_ref)}})
    return variables


def _key(reference: SecretKey) -> Json:
    return {"name": reference.name, "key": reference.key}


def _volumes(model: SpeculativeModel, launch: EngineLaunch) -> list[JsonValue]:
    name = model.metadata.name
    plugin: list[JsonValue] = [{"name": "schedule", "configMap": {"name": schedule_config_map(name)}}]
    fixed: list[JsonValue] = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shared_memory(launch.spec)}},
        {"name": "tmp", "emptyDir": {"sizeLimit": _TMP_SIZE}},
        {"name": "home", "emptyDir": {} if uses_hub(launch.spec) else {"sizeLimit": _CACHES_SIZE}},
    ]
    weights: list[JsonValue] = [
        {"name": f"models-{index}", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
        for index, claim in enumerate(claims(launch.spec))
    ]
    weights += [
        {"name": f"images-{index}", "image": {"reference": image}}
        for index, image in enumerate(images(launch.spec))
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
    weights += [
        {"name": f"images-{index}", "mountPath": image_folder(image), "readOnly": True}
        for index, image in enumerate(images(launch.spec))
    ]
    return (fixed if launch.stock else plugin + fixed) + weights
