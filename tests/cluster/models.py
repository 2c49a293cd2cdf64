"""Models in the cluster, as the tests look at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.cluster.kubectl import get, list_objects, wait_for

Manifest = dict[str, Any]
Deploy = Callable[[Manifest, str], Manifest]
"""Applies a manifest under another name; the model is gone when the test is over."""


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
