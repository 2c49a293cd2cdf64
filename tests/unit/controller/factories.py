"""Short ways to say what runs in the cluster."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from outrider.api.launch import ANNOTATION
from outrider.cluster.objects import Deployment, Pod
from outrider.controller.reconcile.readiness import Workload
from outrider.plan.names import CANARY, CONTAINER, MODEL_LABEL, REVISION_LABEL, ROLE_LABEL, labels

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
REVISION = "r2"


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def a_condition(
    kind: str, status: str = "True", *, reason: str = "", message: str = "", age: float = 0
) -> Any:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": ago(age),
    }


def a_raw_pod(
    name: str = "m-1",
    *,
    model: str = "m",
    uid: str = "",
    version: int = 1,
    revision: str = REVISION,
    ready: bool = False,
    leaving: bool = False,
    conditions: tuple[Any, ...] = (),
    waiting: tuple[str, str] | None = None,
    preparing: tuple[str, str] | None = None,
    ended: tuple[int, str] | None = None,
    restarts: int = 0,
    ip: str = "10.0.0.7",
    launch: str | None = None,
    canary: bool = False,
    requests: dict[str, str] | None = None,
) -> dict[str, Any]:
    """waiting, preparing: reason and message, of the engine and of an init container.

    ended: exit code and termination message of the last end.
    """
    state: dict[str, Any] = {"waiting": {"reason": waiting[0], "message": waiting[1]}} if waiting else {}
    last = {"terminated": {"exitCode": ended[0], "message": ended[1], "reason": "Error"}} if ended else {}
    readiness = a_condition("Ready", "True" if ready else "False")
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {MODEL_LABEL: model, REVISION_LABEL: revision}
            | ({ROLE_LABEL: CANARY} if canary else {}),
            "annotations": {} if launch is None else {ANNOTATION: launch},
            "deletionTimestamp": ago(1) if leaving else None,
        },
        "spec": {
            "containers": [
                {
                    "name": CONTAINER,
                    "ports": [{"name": "http", "containerPort": 8000}],
                    "resources": {"requests": requests or {}},
                }
            ]
        },
        "status": {
            "podIP": ip,
            "conditions": [readiness, *conditions],
            "containerStatuses": [
                {"name": CONTAINER, "restartCount": restarts, "state": state, "lastState": last}
            ],
            "initContainerStatuses": [
                {"name": "init", "state": {"waiting": {"reason": reason, "message": message}}}
                for reason, message in ([preparing] if preparing else [])
            ],
        },
    }


def a_pod(name: str = "m-1", **what: Any) -> Pod:
    return Pod.model_validate(a_raw_pod(name, **what))


def a_workload(
    *pods: Pod,
    wanted: int = 1,
    stuck: bool = False,
    refused: str | None = None,
    generation: int = 1,
    of_spec: tuple[Pod, ...] = (),
) -> Workload:
    """stuck: the Deployment gave up on its progress deadline, at generation 1.

    refused: what the API server said to the Deployment's last pod, at generation 1.
    of_spec: pods of the spec besides the current ones.
    """
    gave_up = a_condition("Progressing", "False", reason="ProgressDeadlineExceeded")
    failure = a_condition("ReplicaFailure", reason="FailedCreate", message=refused or "")
    conditions = [*([gave_up] if stuck else []), *([failure] if refused else [])]
    deployment = {
        "metadata": {"name": "m", "namespace": "default", "generation": generation},
        "status": {"observedGeneration": 1, "conditions": conditions},
    }
    current = tuple(
        pod
        for pod in pods
        if pod.metadata.labels[REVISION_LABEL] == REVISION and pod.metadata.deletion_timestamp is None
    )
    return Workload(wanted, (Deployment.model_validate(deployment),), pods, current, (*current, *of_spec))


def a_raw_model(
    name: str = "m",
    *,
    namespace: str = "default",
    uid: str = "uid-m",
    version: int = 1,
    generation: int = 1,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    wanted = {
        "model": {"uri": "file:///models/target"},
        "speculation": {"method": "ngram", "numSpeculativeTokens": 3},
        "engine": {"image": "engine:1"},
        **spec,
    }
    return {
        "apiVersion": "outrider.dev/v1alpha1",
        "kind": "SpeculativeModel",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": str(version),
            "generation": generation,
        },
        "spec": wanted,
        "status": status or {},
    }


def a_launch_order(
    launch: str = "",
    canary: str = "false",
    *,
    model: str = "m",
    owner: str | None = "uid-m",
    version: int = 1,
) -> dict[str, Any]:
    """The ConfigMap with the tuner's order. owner: None for an object of another owner."""
    controller = {"kind": "SpeculativeModel", "name": model, "uid": owner, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{model}-launch",
            "namespace": "default",
            "uid": f"uid-of-{model}-launch",
            "resourceVersion": str(version),
            "labels": labels(model),
            "ownerReferences": [controller] if owner else [],
        },
        "data": {"launch": launch, "canary": canary},
    }


TWO_NODES: dict[str, Any] = {
    "parallelism": {"tensor": 2, "nodes": 2},
    "rollout": {"onFailure": "Hold", "progressDeadline": "10m"},
}


NO_KEY = "couldn't find key token in Secret default/hf"
NO_ACCOUNT = 'pods "m-6f7c-" is forbidden: error looking up service account default/x: "x" not found'
NOT_ADAPTIVE = json.dumps({"reason": "AdaptiveVerificationUnavailable", "message": "FLASH_ATTN cannot."})
INCOMPLETE = json.dumps({"reason": "EngineImageIncomplete", "message": "no package cryptography."})
NOT_FOUND = json.dumps({"reason": "ModelNotFound", "message": "no model at /models/x"})


def stuck_setup(seconds: float) -> tuple[object, ...]:
    return (
        a_condition("PodScheduled", age=seconds),
        a_condition("PodReadyToStartContainers", "False", age=seconds),
    )


def unscheduled(message: str) -> tuple[object, ...]:
    return (a_condition("PodScheduled", "False", reason="Unschedulable", message=message),)
