"""Replicas of two machines: the controller of LeaderWorkerSet makes them, and real vLLM answers from both."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.kubectl import Object, has_condition
from tests.cluster.models import read_example
from tests.environment.place import ENGINE_IMAGE, OPERATOR_IMAGE
from tests.lifecycle.model_on_nodes import MODEL, ON_ALL_MACHINES, install_operator, override
from tests.lifecycle.nodes import Nodes, several_nodes
from tests.lifecycle.releases import Helm, image_values
from tests.lifecycle.stored_models import KIND, eventually

LEADERS = f"outrider.dev/model={MODEL}"
WORKERS = f"outrider.dev/workers-of={MODEL}"
OF_THE_GROUPS = {"leaderworkerset.sigs.k8s.io/name": f"{MODEL}-group"}
CONTROLLER_IMAGE = "outrider/leaderworkerset:test"
DOCKERFILE = 'FROM scratch\nCOPY manager /manager\nUSER 65532:65532\nENTRYPOINT ["/manager"]\n'
START_SECONDS = 900.0
PROMPT = "import os\nimport re\nimport sys\n"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """With LeaderWorkerSet, the operator, and a model of which each replica takes two machines."""
    controller = build_controller()
    with several_nodes(
        tmp_path_factory.mktemp("nodes"), OPERATOR_IMAGE, ENGINE_IMAGE, CONTROLLER_IMAGE
    ) as found:
        install_controller(found, controller / "chart")
        install_operator(found, {"leaderWorkerSets": {"enabled": True}})
        found.apply(a_model())
        yield found


def build_controller() -> Path:
    """An image of LeaderWorkerSet's own controller; returns the folder that has its chart."""
    told = os.environ.get("OUTRIDER_LEADERWORKERSET")
    if told is None:
        pytest.fail("LeaderWorkerSet is not here: run `make test-lifecycle`")
    command = ["docker", "build", "--quiet", "--tag", CONTROLLER_IMAGE, "--file", "-", told]
    done = subprocess.run(command, input=DOCKERFILE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Path(told)


def install_controller(nodes: Nodes, chart: Path) -> None:
    """As its own chart installs it, with less CPU than it asks for."""
    image = {**image_values(CONTROLLER_IMAGE)["image"], "pullPolicy": "Never"}
    values = {"image": {"manager": image}, "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}}}
    helm = Helm("helm", "lws-system", nodes.environment)
    words = (
        "install",
        "lws",
        str(chart),
        "--create-namespace",
        "--wait",
        "--timeout",
        "180s",
        "--values",
        "-",
    )
    helm(*words, stdin=json.dumps(values))


def a_model() -> Object:
    """The pods of a group are on different machines, as with a model that one machine cannot hold."""
    manifest = read_example()
    manifest["metadata"] |= {"name": MODEL, "namespace": "default"}
    spec = manifest["spec"]
    spec |= {
        "parallelism": {"tensor": 2, "nodes": 2},
        "rollout": {"onFailure": "Hold", "progressDeadline": "15m"},
    }
    spec["speculation"] = {
        "method": "ngram",
        "numSpeculativeTokens": 3,
        "candidates": [0, 1, 3],
        "config": {"prompt_lookup_min": 2, "prompt_lookup_max": 4},
        "tuning": {"mode": "Auto", "sweep": "Never"},
    }
    spec["engine"]["args"]["max-num-seqs"] = 8
    apart = {
        **ON_ALL_MACHINES,
        "nodeTaintsPolicy": "Honor",  # no pod goes to the control plane, so none is missing there
        "labelSelector": {"matchLabels": OF_THE_GROUPS},
    }
    spec["podTemplate"]["spec"]["topologySpreadConstraints"] = [apart]
    return manifest


def status(nodes: Nodes) -> dict[str, Any]:
    """Of the model."""
    found: dict[str, Any] = nodes.get(KIND, MODEL).get("status") or {}
    return found


def is_ready(pod: Object) -> bool:
    """Whether Kubernetes sends it requests; one that ends is not."""
    return "deletionTimestamp" not in pod["metadata"] and has_condition(pod, "Ready", "True")


def groups_serve(nodes: Nodes, count: int, *, without: str = "") -> Callable[[], bool]:
    """Whether so many leaders are ready and have a worker each.

    without: the UID of a pod that has to be gone.
    """

    def look() -> bool:
        leaders, workers = nodes.pods(LEADERS).values(), nodes.pods(WORKERS).values()
        uids = {pod["metadata"]["uid"] for pod in (*leaders, *workers)}
        ready = [pod for pod in leaders if is_ready(pod)]
        return len(ready) == len(leaders) == len(workers) == count and without not in uids

    return look


def answer(nodes: Nodes) -> str:
    """What a client of the Service gets."""
    path = f"/api/v1/namespaces/default/services/{MODEL}:80/proxy/v1/completions"
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 24, "temperature": 0, "ignore_eos": True}
    return str(nodes.post(path, body)["choices"][0]["text"])


def is_ruled(nodes: Nodes, k: int, *, replicas: int) -> Callable[[], bool]:
    """Whether so many groups confirmed this K."""

    def look() -> bool:
        found = status(nodes).get("speculation") or {}
        return found.get("scheduleSummary") == f"*:{k}" and found.get("appliedReplicas") == replicas

    return look


def test_a_group_of_two_machines_answers_and_another_k_changes_no_token(nodes: Nodes) -> None:
    eventually("a group serves", groups_serve(nodes, 1), seconds=START_SECONDS)
    pods = {**nodes.pods(LEADERS), **nodes.pods(WORKERS)}
    assert set(pods) == {f"{MODEL}-group-0", f"{MODEL}-group-0-1"}
    assert len({pod["spec"]["nodeName"] for pod in pods.values()}) == 2
    told = []
    for k in (3, 0):
        override(nodes, k)
        eventually(f"K={k}", is_ruled(nodes, k, replicas=1))
        told.append(answer(nodes))
    assert told[0] != ""
    assert told[0] == told[1]


def test_a_worker_that_ends_takes_its_group_along_and_the_next_one_serves(nodes: Nodes) -> None:
    eventually("a group serves", groups_serve(nodes, 1), seconds=START_SECONDS)
    leader, worker = f"{MODEL}-group-0", f"{MODEL}-group-0-1"
    before = nodes.pods(LEADERS)[leader]["metadata"]["uid"]
    nodes.kubectl("exec", worker, "--", "python3", "-c", "import os, signal; os.kill(1, signal.SIGTERM)")
    eventually("another group serves", groups_serve(nodes, 1, without=before), seconds=START_SECONDS)
    eventually("it is ruled", is_ruled(nodes, 0, replicas=1))
    assert answer(nodes) != ""


def test_replicas_are_groups_and_go_with_their_model(nodes: Nodes) -> None:
    nodes.kubectl("scale", KIND, MODEL, "--replicas=2")
    eventually("two groups serve", groups_serve(nodes, 2), seconds=START_SECONDS)
    eventually("both are ruled", is_ruled(nodes, 0, replicas=2))
    assert status(nodes)["readyReplicas"] == 2
    nodes.kubectl("delete", KIND, MODEL, "--wait=false")
    eventually("nothing is left", lambda: not nodes.pods(LEADERS) and not nodes.pods(WORKERS), seconds=300)
    assert nodes.kubectl("get", "leaderworkersets", "--all-namespaces", "--output=name") == ""
