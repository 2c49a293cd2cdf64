"""Models in the cluster, as the tests look at them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from examples.kit.status import k_at
from outrider.controller.tune.snapshot import read_estimates
from outrider_protocol.releases import CPU_RELEASE
from tests.cluster.kubectl import (
    Object,
    apply,
    get,
    has_condition,
    kubectl,
    list_objects,
    namespace,
    wait_for,
)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TINY = "tiny-draft-model.yaml"
TWIN = "twin-h100.yaml"
"""Engines that compute nothing, take the time of a GPU, and start in a third of the time."""
VLLM_CACHE = "/opt/vllm/cache"
"""In the volume with vLLM: what it learnt of the tiny models' classes. Pods keep no cache of their own."""
TIME_FACTOR = 3
"""On their step times: each step costs CPU time for its tokens on their way to the client."""

_KINDS = "deployments,replicasets,pods,services,serviceaccounts,configmaps,secrets"

Manifest = dict[str, Any]
Deploy = Callable[[Manifest, str], Manifest]
"""Applies a manifest under another name; the model is gone when the test is over."""


PUNCTUAL = "150m"
"""CPU request of a stand-in whose tuner must learn: it teaches no engine whose steps are late at random."""


def read_example(name: str = TINY) -> Manifest:
    """An example, in the namespace of the tests. It asks for little CPU: five workers share two cores."""
    manifest: Manifest = yaml.safe_load((EXAMPLES / name).read_text())
    manifest["metadata"]["namespace"] = namespace()
    manifest["spec"]["resources"]["requests"]["cpu"] = "60m"
    (engine,) = manifest["spec"]["podTemplate"]["spec"]["containers"]
    engine["env"].append({"name": "VLLM_CACHE_ROOT", "value": VLLM_CACHE})
    return manifest


def read_light() -> Manifest:
    """The tiny example with the target as it was trained, for tests that measure nothing."""
    manifest = read_example()
    manifest["spec"]["model"]["uri"] = "pvc://tiny-models/light"
    return manifest


def read_twin(*, time_factor: float = TIME_FACTOR, cpu: str = "50m") -> Manifest:
    """The example of the stand-in, small and slow enough for several on a node that has two cores.

    cpu: request. It is the pod's weight among others; see `PUNCTUAL`.
    """
    manifest = read_example(TWIN)
    manifest["spec"]["resources"]["requests"] = {"cpu": cpu, "memory": "512Mi"}
    variable = simulation(manifest)
    variable["value"] = json.dumps(json.loads(variable["value"]) | {"time_factor": time_factor})
    return manifest


def simulation(manifest: Manifest) -> dict[str, str]:
    """The variable of the container that says how its engine is simulated. The value is JSON."""
    (container,) = manifest["spec"]["podTemplate"]["spec"]["containers"]
    variable: dict[str, str]
    (variable,) = (one for one in container["env"] if one["name"] == "OUTRIDER_TWIN")
    return variable


@contextmanager
def deploying() -> Iterator[Deploy]:
    """Applies models; in the end each of them is deleted and has left nothing but pods that end."""
    applied: list[str] = []

    def deploy(manifest: Manifest, name: str) -> Manifest:
        manifest["metadata"]["name"] = name
        applied.append(name)
        apply(manifest)
        return manifest

    try:
        yield deploy
    finally:
        if applied:
            kubectl("delete", "specmodel", *applied, "-n", namespace(), "--ignore-not-found", "--wait=false")
            wait_until_all_is_given_up(*applied)


def wait_until_nothing_is_left(*names: str) -> None:
    """No object carries the label of one of these models any more."""
    _wait_while_left(names, lambda _: True)


def wait_until_all_is_given_up(*names: str) -> None:
    """Nothing is left of these models but pods that end: no client waits for what their engines do now."""
    _wait_while_left(names, lambda found: not _is_ending_pod(found))


def _wait_while_left(names: Sequence[str], counts: Callable[[Object], bool]) -> None:
    selector = f"outrider.dev/model in ({','.join(names)})"

    def look() -> Manifest | None:
        left = [item for item in list_objects(_KINDS, selector=selector) if counts(item)]
        return {"status": [f"{item['kind']}/{item['metadata']['name']}" for item in left]} if left else None

    wait_for(f"nothing of {', '.join(names)} is left", look, lambda left: left is None, seconds=90)


def _is_ending_pod(found: Object) -> bool:
    return found["kind"] == "Pod" and "deletionTimestamp" in found["metadata"]


def served_name(name: str) -> str:
    """What its clients call it."""
    found = model(name)
    assert found is not None, f"no model {name}"
    return str(found["spec"]["model"]["servedName"])


def model(name: str) -> Manifest | None:
    """The SpeculativeModel as it stands."""
    return get("specmodel", name)


def speculation(seen: Object | None) -> Object:
    """What a model's status says of speculation; empty before it says anything."""
    found: Object = ((seen or {}).get("status") or {}).get("speculation") or {}
    return found


def in_force(table: str, *, replicas: int | None = None) -> Callable[[Object | None], bool]:
    """Whether the pods confirmed this table: so many, where that is asked."""

    def holds(seen: Object | None) -> bool:
        found = speculation(seen)
        enough = replicas in (None, found.get("appliedReplicas"))
        same = found.get("scheduleSummary") == table
        return same and enough and has_condition(seen, "ActuationConverged", "True")

    return holds


def k_in_force(seen: Object | None, streams: int) -> int:
    """K for so many requests, by the table in force."""
    return k_at(speculation(seen)["scheduleSummary"], streams)


def evidence(name: str) -> dict[tuple[str, int], float]:
    """What the tuner has stored: seconds of engine time behind each batch bin and K."""
    kept = get("configmap", f"{name}-tuner")
    if kept is None:
        return {}
    bins = read_estimates(kept["data"]["state.json"])
    return {
        (label, estimate.num_speculative_tokens): estimate.seconds
        for label, found in bins.items()
        for estimate in found.estimates
    }


# No engine of it ever starts, so it asks for next to nothing: many of them fit on one node.
BASE: Manifest = {
    "apiVersion": "outrider.dev/v1alpha1",
    "kind": "SpeculativeModel",
    "metadata": {"name": "mistake", "namespace": "default"},
    "spec": {
        "model": {"uri": "hf://Qwen/Qwen3-8B"},
        "speculation": {"method": "ngram", "numSpeculativeTokens": 3},
        "engine": {"version": CPU_RELEASE, "image": "outrider/engine-cpu:dev"},
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
    },
}
