"""Names, labels and paths that children, engine plugin and monitoring agree on."""

from __future__ import annotations

from outrider.api.pod_template import ENGINE
from outrider.api.resource import GROUP

MODEL_LABEL = f"{GROUP}/model"
REVISION_LABEL = f"{GROUP}/revision"
ROLE_LABEL = f"{GROUP}/role"
"""On the pods of the canary; the others have none."""
CANARY = "canary"

POOL_LABEL = f"{GROUP}/inference-pool"
"""On the pods of an InferencePool, with its name, by which it selects them."""

PLUGIN_ANNOTATION = f"{GROUP}/plugin"
"""On pods of another owner that carry the plugin: the SpeculativeModel whose key they accept."""
INJECT_LABEL = f"{GROUP}/inject"
"""On pods to which the chart's policy adds the plugin: the name of the SpeculativeModel."""
NOT_INJECTED_ANNOTATION = f"{GROUP}/not-injected"
"""On labelled pods that the policy left as they were: the cause."""

CONTAINER = ENGINE
PORT_NAME = "http"
SERVICE_PORT = 80
CONTROL_PORT_NAME = "outrider-ctrl"
CONTROL_PORTS = (8091, 8092)
"""Ports of the control API where it has one of its own; the second where engines serve on the first."""

PLUGIN_FOLDER = "/opt/outrider"
"""Where engines have the plugin; their PYTHONPATH names it."""
PLUGIN_CONTAINER = "outrider-plugin"
"""Init container that brings the plugin to an image without it, and the volume between both."""
OWNED_FOLDERS = ("/etc/outrider", PLUGIN_FOLDER)
"""Folders of an engine's container. Outrider alone mounts at, below or above them."""
PRIVATE_KEY = "private-key"
"""Key in the Secret of the control API. No pod mounts that."""
HOME = "/home/outrider"


WEIGHTS_LABEL = f"{GROUP}/weights-of"
"""On the pods of downloads, in place of `MODEL_LABEL`, by which the Service finds engines."""
WORKERS_LABEL = f"{GROUP}/workers-of"
"""On the workers of groups, in place of `MODEL_LABEL`: they answer no requests, and no scale counts them."""
GROUP_LABEL = "leaderworkerset.sigs.k8s.io/name"
"""Put by its controller onto every pod of a LeaderWorkerSet, with that one's name."""
PROGRESS_PORT = 8090
"""Where a download says how far it is."""


def labels(model: str) -> dict[str, str]:
    """Labels of every child of ``model`` and of its pods."""
    return _labels(MODEL_LABEL, model, "outrider-engine")


def selector(model: str) -> dict[str, str]:
    """What finds the pods of ``model``."""
    return {MODEL_LABEL: model}


def schedule_config_map(model: str) -> str:
    """Name of the ConfigMap with what engines read: the static schedule, and the key of the operator."""
    return f"{model}-schedule"


def canary_deployment(model: str) -> str:
    """Name of the Deployment with the replica that runs without speculation."""
    return f"{model}-canary"


def budget(model: str) -> str:
    """Name of the PodDisruptionBudget; one of the user's own mostly bears the model's name."""
    return f"{model}-engines"


def group_set(model: str) -> str:
    """Name of the LeaderWorkerSet; its controller makes a Service of that name, so it is not the model's."""
    return f"{model}-group"


def worker_labels(model: str) -> dict[str, str]:
    """Labels of the pods of workers."""
    return _labels(WORKERS_LABEL, model, "outrider-worker")


def weights_claim(model: str) -> str:
    """Name of the claim that is made for a model's weights."""
    return f"{model}-weights"


def download_job(model: str, digest: str) -> str:
    """Name of the Job that downloads weights. digest: at most seven characters, of what it does."""
    return f"{model}-dl-{digest}"


def download_labels(model: str) -> dict[str, str]:
    """Labels of the pods of downloads."""
    return _labels(WEIGHTS_LABEL, model, "outrider-weights")


def _labels(own: str, model: str, name: str) -> dict[str, str]:
    """own: the label by which the operator knows them; name: that of Kubernetes' common labels."""
    return {
        own: model,
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": model,
        "app.kubernetes.io/managed-by": "outrider",
    }


def control_secret(model: str) -> str:
    """Name of the Secret with the private key of the control API."""
    return f"{model}-control"
