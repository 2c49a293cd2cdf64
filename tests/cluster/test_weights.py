"""One download for a target on a hub and a drafter in a bucket, both on this machine, and engines on it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.kubectl import Object, apply, get, has_condition, kubectl, list_objects, wait_for
from tests.cluster.models import Manifest, deploying, model, read_twin
from tests.unit.weights.fake_hub import COMMIT, Hub, a_hub
from tests.unit.weights.s3 import Server, a_server

pytestmark = pytest.mark.engine("twin", "starts")

NAME = "fresh-volume"
FOLDER = f"/var/local/{NAME}"
TINY = Path(__file__).resolve().parents[2] / "examples" / "models" / "weights"
WIDE = b"weights" * 1_000_000
"""A stand-in reads no tensors; so many bytes take a while."""


def repository(folder: Path) -> dict[str, bytes]:
    """The files of a tiny model, as a hub has them."""
    small = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".json"}
    return {**small, "model.safetensors": WIDE}


@pytest.fixture
def address() -> str:
    """Where pods reach this machine: the address by which it reaches their node."""
    node = list_objects("nodes", selector="")[0]
    inside = next(entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((inside, 9))
        return str(probe.getsockname()[0])


@pytest.fixture
def hub(address: str) -> Iterator[Hub]:
    with a_hub(Hub({"tiny/target": repository(TINY / "target")}), address=address) as hub:
        yield hub


@pytest.fixture
def store(address: str) -> Iterator[Server]:
    """With its keys in a Secret."""
    with a_server(address) as store:
        store.put("tiny/drafter", repository(TINY / "drafter"))
        keys = {"AWS_ACCESS_KEY_ID": store.key, "AWS_SECRET_ACCESS_KEY": store.secret}
        apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}, "stringData": keys})
        try:
            yield store
        finally:
            kubectl("delete", "secret", NAME)


@pytest.fixture
def volume() -> Iterator[None]:
    """A fresh folder of root on the node, of the kind that fsGroup applies to, for the claim that is made."""
    node = list_objects("nodes", selector="")[0]["metadata"]["name"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    # A run that was killed leaves its volume behind, which no other claim gets.
    kubectl("delete", "pv", NAME, "--ignore-not-found", "--wait")
    apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": NAME},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": NAME,
                "local": {"path": FOLDER},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        }
    )
    on_the_node("true")
    try:
        yield
    finally:
        kubectl("delete", "pv", NAME, "--wait=false")
        on_the_node(f"rm -rf {FOLDER}/*")


def on_the_node(command: str) -> None:
    """In a pod of root, with the folder, which it makes."""
    folder = {"name": "folder", "hostPath": {"path": FOLDER, "type": "DirectoryOrCreate"}}
    container: dict[str, Any] = {
        "name": "c",
        "image": "outrider/engine-twin:dev",
        "command": ["sh", "-c", command],
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "folder", "mountPath": FOLDER}],
    }
    name = f"{NAME}-root"
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [folder]}
    apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    try:
        kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{name}", "--timeout=60s")
    finally:
        kubectl("delete", "pod", name, "--grace-period=1")


def a_cached_model(hub: Hub, store: Server) -> Manifest:
    """The stand-in with weights of both, by way of a claim that is made for it."""
    manifest = read_twin()
    spec = manifest["spec"]
    spec["model"]["uri"] = "hf://tiny/target"
    spec["speculation"]["drafter"]["uri"] = "s3://models/tiny/drafter"
    spec["cache"] = {"size": "1Gi", "storageClass": NAME, "s3": {"endpoint": store.url, "secret": NAME}}
    (engine,) = spec["podTemplate"]["spec"]["containers"]
    engine["env"] = [each for each in engine["env"] if each["name"] != "HF_HUB_OFFLINE"]
    engine["env"].append({"name": "HF_ENDPOINT", "value": hub.url})
    return manifest


def weights() -> Object:
    return dict((model(NAME) or {}).get("status", {}).get("weights") or {})


@pytest.mark.usefixtures("volume")
def test_engines_serve_what_one_download_brought_and_leave_nothing(hub: Hub, store: Server) -> None:
    with deploying() as deploy:
        deploy(a_cached_model(hub, store), NAME)
        wait_for(
            "it serves", lambda: model(NAME), lambda seen: has_condition(seen, "Ready", "True"), seconds=180
        )
        brought, served = weights(), get("deployment", NAME)
        jobs = list_objects("jobs", selector=f"outrider.dev/model={NAME}")
    claims = list_objects("pvc", selector=f"outrider.dev/model={NAME}")

    assert brought["model"]["revision"] == COMMIT
    assert brought["drafter"]["path"].startswith("s3/models/drafter/")
    assert hub.sent.count("model.safetensors") == 1
    assert [name for name, _ in store.asked()].count("model.safetensors") == 1
    assert served is not None
    (engine,) = served["spec"]["template"]["spec"]["containers"]
    assert {"name": "HF_HUB_OFFLINE", "value": "1"} in engine["env"]
    assert jobs == []
    assert [claim for claim in claims if "deletionTimestamp" not in claim["metadata"]] == []
