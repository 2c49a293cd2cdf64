"""A model that serves in the cluster while Helm changes the release that rules it.

The cluster's own operator yields: of two that watch the same models the one that sees no others comes
first. The definition is the cluster's; `test_definition.py` upgrades one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.kubectl import list_objects
from tests.environment.place import OPERATOR_IMAGE
from tests.lifecycle.releases import (
    CHART,
    OLDER_IMAGE,
    RELEASE,
    Helm,
    Values,
    chart_of,
    image_values,
    load_operator_of,
)
from tests.lifecycle.serving import Serving, namespaces, start

WAIT = ("--wait", "--timeout", "180s")


@dataclass(frozen=True)
class Release:
    """One Helm, its release, and the model that it manages."""

    helm: Helm
    model: Serving
    older: Path

    def bring(self, chart: Path, image: str, values: Values | None = None) -> None:
        """Install or upgrade to this chart and operator."""
        always: Values = {
            **image_values(image),
            "watchNamespaces": [self.model.namespace],
            "crds": {"install": False},
            "detectOtherInstallations": False,
            "admissionPolicy": {"enabled": False},
            "tuning": {"interval": 5, "scaleSettle": 15},
        }
        self.helm.deploy(chart, {**always, **(values or {})}, *WAIT)

    def bring_older(self) -> None:
        self.bring(chart_of(self.older), OLDER_IMAGE)

    def bring_present(self, values: Values | None = None) -> None:
        self.bring(CHART, OPERATOR_IMAGE, values)

    def operators(self) -> set[str]:
        """Images of the operators that are there to stay."""
        selector = f"app.kubernetes.io/instance={RELEASE}"
        pods = list_objects("pods", selector=selector, where=self.helm.namespace)
        left = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return {container["image"] for pod in left for container in pod["spec"]["containers"]}


@pytest.fixture(scope="session")
def older_operator(older: Path) -> Path:
    """The tree of the older release, whose operator the cluster has."""
    load_operator_of(older)
    return older


@pytest.fixture(scope="module")
def release(helm_program: str, older_operator: Path, helm_generation: int) -> Iterator[Release]:
    """The older release, and a model that serves."""
    name = f"lifecycle-{helm_generation}"
    with namespaces(name, f"{name}-operator") as model:
        found = Release(Helm(helm_program, f"{name}-operator"), model, older_operator)
        found.bring_older()
        try:
            start(model)
            model.is_ruled(1)
            yield found
        finally:
            found.helm("uninstall", RELEASE, "--ignore-not-found")


def test_an_upgrade_from_an_older_release_manages_the_model_and_restarts_no_engine(release: Release) -> None:
    """Both releases plan the same pod for this model. Where they differ, the changelog says so."""
    before = release.model.engines()
    release.bring_present()
    assert release.operators() == {OPERATOR_IMAGE}
    release.model.is_ruled(2)
    assert release.model.engines() == before


def test_an_upgrade_within_a_release_and_its_rollback_restart_no_engine(release: Release) -> None:
    before = release.model.engines()
    release.bring_present({"podAnnotations": {"changed": "yes"}})
    release.model.is_ruled(3)
    release.helm("rollback", RELEASE, *WAIT)
    release.model.is_ruled(1)
    assert release.model.engines() == before


def test_a_rollback_to_the_older_release_manages_the_model_and_restarts_no_engine(release: Release) -> None:
    before = release.model.engines()
    release.helm("rollback", RELEASE, "1", *WAIT)
    assert release.operators() == {OLDER_IMAGE}
    release.model.is_ruled(2)
    assert release.model.engines() == before


def test_an_uninstall_leaves_the_engine_serving_and_the_next_install_manages_it(release: Release) -> None:
    before = release.model.engines()
    release.helm("uninstall", RELEASE, "--wait")
    assert release.operators() == set()
    assert release.model.engines() == before
    assert ((release.model.look() or {}).get("status") or {}).get("readyReplicas") == 1
    release.bring_present()
    release.model.is_ruled(3)
    assert release.model.engines() == before


def test_a_value_that_changes_the_pods_replaces_each_engine_once(release: Release) -> None:
    before = release.model.engines()
    release.bring_present({"engineImagePullSecrets": ["registry"]})
    after = release.model.other_engine_than(before)
    release.model.is_ruled(2)
    assert release.model.engines() == after
