"""The download of weights as it is planned: its pod in a real cluster, with a hub on this machine."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.api.resource import SpeculativeModel
from outrider.plan import ControlKeys, PlanSettings, plan
from tests.cluster.kubectl import Object, apply, kubectl, list_objects, wait_for
from tests.cluster.models import read_example
from tests.unit.weights.fake_hub import COMMIT, Hub, a_hub

pytestmark = pytest.mark.engine("none", "downloads")

NAME = "fresh-volume"
PROGRAM = Path(__file__).resolve().parents[2] / "engine_image" / "outrider_weights"
FOLDER = f"/var/local/{NAME}"
CONFIG = json.dumps({"vocab_size": 257, "hidden_size": 256, "num_hidden_layers": 12}).encode()
REPOSITORIES = {"org/target": {"config.json": CONFIG, "model.safetensors": b"weights" * 100_000}}
SELECTOR = f"outrider.dev/weights-of={NAME}"


@pytest.fixture
def hub() -> Iterator[Hub]:
    """Where pods reach it: at the address by which this machine reaches their node."""
    node = list_objects("nodes", selector="")[0]
    inside = next(entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((inside, 9))
        address = probe.getsockname()[0]
    with a_hub(Hub(REPOSITORIES), address=address) as hub:
        yield hub


@pytest.fixture
def volume() -> Iterator[None]:
    """A fresh folder of root on the node, of the kind that fsGroup applies to, for the claim that is made."""
    node = list_objects("nodes", selector="")[0]["metadata"]["name"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
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
        kubectl(
            "delete", "job,pod,pvc,service,cm,secret,sa", "-l", f"outrider.dev/model={NAME}", "--wait=false"
        )
        kubectl("delete", "cm", f"{NAME}-program", "--ignore-not-found")
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


def a_cached_model(hub: Hub) -> SpeculativeModel:
    """The tiny example with the program of this tree, which need not be that of the image."""
    manifest = read_example()
    manifest["metadata"]["name"] = NAME
    manifest["spec"]["model"] = {"uri": "hf://org/target"}
    manifest["spec"]["speculation"] = {"method": "ngram", "numSpeculativeTokens": 3}
    manifest["spec"]["cache"] = {"size": "1Gi", "storageClass": NAME}
    pod = manifest["spec"]["podTemplate"]["spec"]
    (engine,) = pod["containers"]
    engine["env"] += [
        {"name": "HF_ENDPOINT", "value": hub.url},
        {"name": "PYTHONPATH", "value": "/opt/trial:/opt/outrider"},
    ]
    engine["volumeMounts"].append({"name": "trial", "mountPath": "/opt/trial/outrider_weights"})
    pod["volumes"].append({"name": "trial", "configMap": {"name": f"{NAME}-program"}})
    return SpeculativeModel.model_validate(manifest)


def ended(pods: Object | None) -> Object | None:
    for pod in (pods or {}).get("items") or ():
        for status in pod["status"].get("containerStatuses") or ():
            if "terminated" in status["state"]:
                return dict(status["state"]["terminated"])
    return None


@pytest.mark.usefixtures("volume")
def test_a_fresh_volume_is_filled_by_a_pod_without_root_and_its_end_says_what_it_brought(hub: Hub) -> None:
    kubectl("create", "configmap", f"{NAME}-program", f"--from-file={PROGRAM}")
    model = a_cached_model(hub)
    for child in plan(model, settings=PlanSettings(), keys=ControlKeys("none", "none")).children:
        ownerless = {**child, "metadata": {**child["metadata"], "ownerReferences": []}}  # type: ignore[dict-item]
        apply(ownerless)
    pods = wait_for(
        "the download has ended",
        lambda: json.loads(kubectl("get", "pods", "-l", SELECTOR, "-o", "json")),
        lambda seen: ended(seen) is not None,
        seconds=120,
    )

    end = ended(pods)
    assert end is not None
    assert end["exitCode"] == 0, end
    brought = json.loads(end["message"])["weights"]["model"]
    assert (brought["revision"], brought["vocabularySize"]) == (COMMIT, 257)
