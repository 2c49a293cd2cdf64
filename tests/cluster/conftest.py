"""The cluster that `make cluster` made, and models that leave nothing behind."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.kubectl import KubectlError, apply, kubectl
from tests.cluster.models import Deploy, Manifest, wait_until_nothing_is_left

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "tiny-draft-model.yaml"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs the cluster."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session", autouse=True)
def cluster() -> None:
    """kubectl reaches a cluster where the operator runs; otherwise say what to do."""
    if "KUBECONFIG" not in os.environ and "KUBECONTEXT" not in os.environ:
        pytest.fail("no cluster named: run `make test`, or `make cluster` and set KUBECONFIG")
    try:
        kubectl("rollout", "status", "deployment/outrider", "-n", "outrider-system", "--timeout=60s")
    except KubectlError as error:
        pytest.fail(f"the operator does not run: {error}; `make cluster` installs it")


@pytest.fixture
def example() -> Manifest:
    """The tiny example, to be changed at will."""
    manifest: Manifest = yaml.safe_load(EXAMPLE.read_text())
    manifest["metadata"]["namespace"] = "default"
    return copy.deepcopy(manifest)


@pytest.fixture
def deploy() -> Iterator[Deploy]:
    """Apply a model under a name of its own; it is gone when the test is over."""
    applied: list[str] = []

    def _deploy(manifest: Manifest, name: str) -> Manifest:
        manifest["metadata"]["name"] = name
        applied.append(name)
        apply(manifest)
        return manifest

    yield _deploy
    for name in applied:
        kubectl("delete", "specmodel", name, "-n", "default", "--ignore-not-found", "--wait=false")
    for name in applied:
        wait_until_nothing_is_left(name)
