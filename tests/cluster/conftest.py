"""The cluster that `make cluster` made, and models that leave nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from xdist.remote import Producer

from tests.cluster.kubectl import KubectlError, kubectl
from tests.cluster.models import Deploy, Manifest, deploying, read_example, wait_until_nothing_is_left
from tests.cluster.side_by_side import HERE, OneWorkerForOneModel, mark, turn


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs the cluster; what takes longest begins first."""
    for item in items:
        if HERE in item.path.parents:
            mark(item)
    items.sort(key=lambda item: turn(item.nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneWorkerForOneModel:
    """Whatever --dist says."""
    return OneWorkerForOneModel(config, log)


@pytest.fixture(scope="session", autouse=True)
def cluster() -> None:
    """kubectl reaches a cluster where the operator runs; otherwise say what to do."""
    if "KUBECONFIG" not in os.environ:
        pytest.fail("no cluster named: run `make test`, or `make cluster` and set KUBECONFIG")
    try:
        kubectl("rollout", "status", "deployment/outrider", "-n", "outrider-system", "--timeout=60s")
    except KubectlError as error:
        pytest.fail(f"the operator does not run: {error}; `make cluster` installs it")


@pytest.fixture(scope="session", autouse=True)
def no_other_models(cluster: None) -> None:  # noqa: ARG001 - order
    """A model of the demo would take the two cores that the tests measure on."""
    kubectl("delete", "specmodel", "tiny", "-n", "default", "--ignore-not-found")
    wait_until_nothing_is_left("tiny")


@pytest.fixture
def example() -> Manifest:
    """The tiny example, to be changed at will."""
    return read_example()


@pytest.fixture
def deploy() -> Iterator[Deploy]:
    """Apply a model under a name of its own; it is gone when the test is over."""
    with deploying() as deploy:
        yield deploy
