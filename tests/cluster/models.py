"""Models in the cluster, as the tests look at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.kubectl import apply, get, kubectl, list_objects, wait_for

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TINY = "tiny-draft-model.yaml"
TWIN = "twin-h100.yaml"
"""Engines that compute nothing and take the time of a GPU."""

Manifest = dict[str, Any]
Deploy = Callable[[Manifest, str], Manifest]
"""Applies a manifest under another name; the model is gone when the test is over."""


def read_example(name: str = TINY) -> Manifest:
    """An example, in the namespace where its volumes are."""
    manifest: Manifest = yaml.safe_load((EXAMPLES / name).read_text())
    manifest["metadata"]["namespace"] = "default"
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
            kubectl("delete", "specmodel", name, "-n", "default", "--ignore-not-found", "--wait=false")
        for name in applied:
            wait_until_nothing_is_left(name)


def wait_until_nothing_is_left(name: str, *, seconds: float = 90) -> None:
    """No object carries the model's label any more."""
    kinds = "deployments,replicasets,pods,services,serviceaccounts,configmaps,secrets"

    def look() -> Manifest | None:
        left = list_objects(kinds, selector=f"outrider.dev/model={name}")
        return {"status": [f"{item['kind']}/{item['metadata']['name']}" for item in left]} if left else None

    wait_for(f"nothing of {name} is left", look, lambda left: left is None, seconds=seconds)


def model(name: str) -> Manifest | None:
    """The SpeculativeModel as it stands."""
    return get("specmodel", name)
