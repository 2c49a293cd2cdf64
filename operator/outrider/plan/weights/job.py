"""The claim and the Job of a download. The Job's pod is the engine's with another program in it.

So it gets what a team has set for its pods: nodes, tolerations, pull secrets, proxies, mirrors, certificates.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection

from outrider.api.json_object import Json, as_object, as_objects
from outrider.api.resource import SpeculativeModel
from outrider.api.weights import AccessMode, Addressing, ObjectStore
from outrider.plan.children import Manifest, head
from outrider.plan.names import CONTAINER, PROGRESS_PORT, download_job, download_labels, weights_claim
from outrider.plan.plugin import with_plugin
from outrider.plan.weights.needs import Needs
from outrider.runtimes.artifacts import MODELS_FOLDER

_MODULE = "outrider_weights"
_CONTAINER = "download"
_KEYS = {"AWS_ACCESS_KEY_ID": False, "AWS_SECRET_ACCESS_KEY": False, "AWS_SESSION_TOKEN": True}
"""Key of a store's Secret, and whether the Secret may lack it."""
_ENDLESS = 2_147_483_647
"""It tries again for what is missing, ever more rarely. So after a remedy it needs no new start."""
_REQUESTS: Json = {"cpu": "100m", "memory": "512Mi"}

_POD_PARTS_OF_ENGINES = (
    "containers",
    "initContainers",
    "terminationGracePeriodSeconds",
    "topologySpreadConstraints",
    "resourceClaims",
)
_CONTAINER_PARTS = ("env", "envFrom", "imagePullPolicy", "securityContext", "volumeMounts")


def claim(model: SpeculativeModel) -> Manifest | None:
    """The claim that is made for a model; None where it brings its own."""
    cache = model.spec.cache
    if cache is None or cache.size is None:
        return None
    spec: Json = {
        "accessModes": [(cache.access_mode or AccessMode.READ_WRITE_ONCE).value],
        "resources": {"requests": {"storage": str(cache.size)}},
    }
    if cache.storage_class is not None:
        spec["storageClassName"] = cache.storage_class
    return {**head(model, "v1", "PersistentVolumeClaim", weights_claim(model.metadata.name)), "spec": spec}


def job(
    model: SpeculativeModel,
    needs: Needs,
    *,
    template: Json,
    image: str,
    plugin_image: str | None,
    variables: Collection[str],
) -> Manifest:
    """The Job that brings ``needs``.

    template: of the engine's pods, overlay applied, with the claim mounted. image: what the download runs in.
    plugin_image: has the program; None: ``image`` has it. variables: of the engine's environment that only
    the engine reads.
    """
    name = model.metadata.name
    pod = _pod(model, needs, as_object(template["spec"]), image=image, variables=variables)
    if plugin_image is not None:
        pod = with_plugin(pod, container=_CONTAINER, image=plugin_image)
    spec: Json = {
        "backoffLimit": _ENDLESS,
        "template": {
            "metadata": {"labels": dict(download_labels(name))},
            "spec": pod,
        },
    }
    # A Job's template cannot change, so another one gets another name.
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:7]
    return {**head(model, "batch/v1", "Job", download_job(name, digest)), "spec": spec}


def _pod(
    model: SpeculativeModel, needs: Needs, engines: Json, *, image: str, variables: Collection[str]
) -> Json:
    containers = as_objects(engines["containers"])
    engine = next(container for container in containers if container.get("name") == CONTAINER)
    kept = {key: value for key, value in engines.items() if key not in _POD_PARTS_OF_ENGINES}
    security = as_object(engines["securityContext"])
    owner: Json = {"fsGroupChangePolicy": "OnRootMismatch"}
    if "runAsGroup" in security:
        owner["fsGroup"] = security["runAsGroup"]
    return {
        **kept,
        "restartPolicy": "OnFailure",
        "securityContext": {**owner, **security},
        "containers": [_container(model, needs, engine, image=image, variables=variables)],
        "volumes": [_writable_volume(volume, needs.claim) for volume in as_objects(engines["volumes"])],
    }


def _container(
    model: SpeculativeModel, needs: Needs, engine: Json, *, image: str, variables: Collection[str]
) -> Json:
    kept = {part: engine[part] for part in _CONTAINER_PARTS if part in engine}
    folder = f"{MODELS_FOLDER}/{needs.claim}"
    own = _environment(model, needs, folder)
    taken = {*variables, *(entry["name"] for entry in own)}
    inherited = [entry for entry in as_objects(engine.get("env")) if entry.get("name") not in taken]
    return {
        **kept,
        "name": _CONTAINER,
        "image": image,
        "command": ["python3", "-m", _MODULE],
        "env": [*inherited, *own],
        "ports": [{"name": "progress", "containerPort": PROGRESS_PORT}],
        "resources": {"requests": _REQUESTS},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [_writable_mount(mount, folder) for mount in as_objects(engine.get("volumeMounts"))],
    }


def _environment(model: SpeculativeModel, needs: Needs, folder: str) -> list[Json]:
    wanted = {
        "folder": folder,
        "shared": needs.shared,
        "artifacts": [artifact.to_wire() for artifact in needs.artifacts],
    }
    variables: list[Json] = [
        {"name": "OUTRIDER_WEIGHTS", "value": json.dumps(wanted, separators=(",", ":"))},
        {"name": "OUTRIDER_WEIGHTS_PORT", "value": str(PROGRESS_PORT)},
        {"name": "HF_HUB_DISABLE_TELEMETRY", "value": "1"},
    ]
    secret = model.spec.model.secret_ref
    if secret is not None:
        key: Json = {"name": secret.name, "key": secret.key}
        variables.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": key}})
    if any(artifact.in_a_bucket for artifact in needs.artifacts):
        variables += _of_store((model.spec.cache and model.spec.cache.s3) or ObjectStore())
    return variables


def _of_store(store: ObjectStore) -> list[Json]:
    """Under AWS's names, which the client reads. The endpoint stands with each artifact."""
    by_default = Addressing.VIRTUAL_HOST if store.endpoint is None else Addressing.PATH
    hosts = (store.addressing or by_default) is Addressing.VIRTUAL_HOST
    variables: list[Json] = [{"name": "AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "value": str(hosts).lower()}]
    if store.region is not None:
        variables.append({"name": "AWS_REGION", "value": store.region})
    for name, optional in _KEYS.items() if store.secret is not None else ():
        key: Json = {"name": store.secret, "key": name, **({"optional": True} if optional else {})}
        variables.append({"name": name, "valueFrom": {"secretKeyRef": key}})
    return variables


def _writable_volume(volume: Json, name: str) -> Json:
    source = as_object(volume.get("persistentVolumeClaim", {}))
    if source.get("claimName") != name:
        return volume
    return {**volume, "persistentVolumeClaim": {"claimName": name}}


def _writable_mount(mount: Json, folder: str) -> Json:
    if mount.get("mountPath") != folder:
        return mount
    return {key: value for key, value in mount.items() if key != "readOnly"}
