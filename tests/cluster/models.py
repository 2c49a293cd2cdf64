"""Models in the cluster, as the tests look at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from examples.kit.status import k_at
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

_KINDS = "deployments,replicasets,pods,services,serviceaccounts,configmaps,secrets"

Manifest = dict[str, Any]
Deploy = Callable[[Manifest, str], Manifest]
"""Applies a manifest under another name; the model is gone when the test is over."""


def read_example(name: str = TINY) -> Manifest:
    """An example, in the namespace of the tests."""
    manifest: Manifest = yaml.safe_load((EXAMPLES / name).read_text())
    manifest["metadata"]["namespace"] = namespace()
    return manifest


def read_twin() -> Manifest:
    """The example of the stand-in, small enough for several on a node that has two cores."""
    manifest = read_example(TWIN)
    manifest["spec"]["resources"]["requests"]["cpu"] = "50m"
    return manifest


@contextmanager
def deploying() -> Iterator[Deploy]:
    """Applies models; in the end each of them is deleted and has left nothing."""
    applied: list[str] = []

    def deploy(manifest: Manifest, name: str) -> Manifest:
        manifest["metadata"]["name"] = name
        applied.append(name)
        apply(manifest)
        return manifest

    try:
        yield deploy
    finally:
        for name in applied:
            kubectl("delete", "specmodel", name, "-n", namespace(), "--ignore-not-found", "--wait=false")
        for name in applied:
            wait_until_nothing_is_left(name, drain=False)


def wait_until_nothing_is_left(name: str, *, drain: bool = True, seconds: float = 90) -> None:
    """No object carries the model's label any more.

    drain: pods that end have their time. Without, they are cut short: no client is left to be sent away.
    """
    cut: set[str] = set()

    def look() -> Manifest | None:
        left = list_objects(_KINDS, selector=f"outrider.dev/model={name}")
        ending = {pod["metadata"]["name"] for pod in left if _ends(pod)} - cut
        if ending and not drain:
            cut.update(ending)
            short = ("--grace-period=1", "--ignore-not-found", "--wait=false")
            kubectl("delete", "pods", *sorted(ending), "-n", namespace(), *short)
        return {"status": [f"{item['kind']}/{item['metadata']['name']}" for item in left]} if left else None

    wait_for(f"nothing of {name} is left", look, lambda left: left is None, seconds=seconds)


def _ends(found: Object) -> bool:
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
        return found.get("table") == table and enough and has_condition(seen, "ActuationConverged", "True")

    return holds


def k_in_force(seen: Object | None, streams: int) -> int:
    """K for so many requests, by the table in force."""
    return k_at(speculation(seen)["table"], streams)
