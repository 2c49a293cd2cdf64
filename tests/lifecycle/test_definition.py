"""The definition is upgraded under stored objects: by Helm, the real operator, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from outrider import __version__
from tests.cluster.kubectl import Object, condition
from tests.lifecycle.api_server import ApiServer, an_api_server
from tests.lifecycle.operators import an_operator
from tests.lifecycle.releases import CHART, CRD, RELEASE, Helm, chart_of, check_out
from tests.lifecycle.stored_models import KIND, a_model, eventually, is_taken

STORED, REFUSED = "stored", "refused"
WITHOUT_ON_FAILURE = "9b06356c4752e0315716aa27d3e4fe0465ca31b3"
"""A commit whose definition has no `spec.rollout.onFailure`."""


@dataclass(frozen=True)
class Place:
    """An API server with a release on it."""

    server: ApiServer
    helm: Helm

    def model(self, name: str) -> Object:
        """As the API server shows it."""
        found = self.server.get(KIND, name)
        assert found is not None
        return found

    def patch(self, name: str, change: str) -> None:
        """What a user does with ``kubectl patch``."""
        self.server.kubectl("patch", KIND, name, "-n", "default", "--type", "merge", "-p", change)

    def knows(self, field: str) -> bool:
        """Whether the definition has a field of spec.rollout."""
        found = self.server.get("crd", CRD)
        assert found is not None
        spec = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        return field in spec["properties"]["rollout"]["properties"]

    def rollout(self) -> Object:
        """``spec.rollout`` of the object that was stored."""
        found: Object = self.model(STORED)["spec"]["rollout"]
        return found


@pytest.fixture(scope="module")
def older_release(helm_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The older release with two objects. One of them broke no rule, because there was none."""
    with an_api_server(tmp_path_factory.mktemp("api-server")) as server:
        helm = Helm(helm_program, "outrider-system", server.environment)
        older = check_out(tmp_path_factory.mktemp("older"), WITHOUT_ON_FAILURE)
        helm.deploy(chart_of(older), {})
        server.until_established(CRD)
        eventually("objects are taken", lambda: is_taken(server, a_model(STORED)))
        definition = server.get("crd", CRD)
        assert definition is not None
        as_helm = ("--server-side", "--force-conflicts", "--field-manager=helm")
        server.apply(without_rules(definition), *as_helm)
        refused = a_model(REFUSED, model={"uri": "ftp://host/model"})
        eventually("no rules", lambda: is_taken(server, refused))
        yield Place(server, helm)


@pytest.fixture(scope="module")
def upgraded(older_release: Place) -> Iterator[Place]:
    """The present release over the older one, and its operator."""
    assert not older_release.knows("onFailure")
    older_release.helm.deploy(CHART, {})
    assert older_release.knows("onFailure")
    with an_operator(older_release.server, "operator"):
        yield older_release


def test_what_an_older_object_lacks_is_defaulted(upgraded: Place) -> None:
    eventually("defaults", lambda: "onFailure" in upgraded.rollout())
    rollout = upgraded.rollout()
    assert (rollout["maxUnavailable"], rollout["onFailure"], rollout["surgeTimeout"]) == (1, "RollBack", "5m")


def test_an_older_object_is_reconciled(upgraded: Place) -> None:
    eventually("its Deployment", lambda: upgraded.server.get("deployment", STORED) is not None)
    eventually("its status", lambda: upgraded.model(STORED).get("status", {}).get("reason") == "RollingOut")


def test_an_older_object_takes_older_and_newer_fields(upgraded: Place) -> None:
    upgraded.patch(STORED, '{"spec": {"replicas": 2, "rollout": {"onFailure": "Hold"}}}')

    def replicas() -> int:
        deployment = upgraded.server.get("deployment", STORED)
        return int(deployment["spec"]["replicas"]) if deployment else 0

    eventually("two replicas", lambda: replicas() == 2)
    assert upgraded.rollout()["onFailure"] == "Hold"


def test_an_object_that_a_newer_rule_refuses_is_reported_and_takes_all_other_changes(upgraded: Place) -> None:
    def degraded() -> str:
        found = condition(upgraded.model(REFUSED), "Degraded")
        return str(found["reason"]) if found and found["status"] == "True" else ""

    eventually("Degraded", lambda: degraded() == "InvalidSpec")
    upgraded.patch(REFUSED, '{"metadata": {"labels": {"team": "a"}}, "spec": {"replicas": 2}}')
    with pytest.raises(AssertionError, match="hf://organisation/name"):
        upgraded.patch(REFUSED, '{"spec": {"model": {"uri": "ftp://another/model"}}}')
    upgraded.patch(REFUSED, '{"spec": {"model": {"uri": "hf://org/model"}}}')
    eventually("it is planned", lambda: upgraded.server.get("deployment", REFUSED) is not None)


def test_what_only_the_newer_definition_knows_is_lost_when_an_object_is_written_after_a_rollback(
    upgraded: Place,
) -> None:
    upgraded.patch(STORED, '{"spec": {"rollout": {"onFailure": "Hold"}}}')
    upgraded.helm("rollback", RELEASE, "1")
    assert not upgraded.knows("onFailure")
    eventually("hidden", lambda: "onFailure" not in upgraded.rollout())
    upgraded.patch(STORED, '{"metadata": {"labels": {"written": "yes"}}}')
    upgraded.helm.deploy(CHART, {})
    eventually("the default again", lambda: upgraded.rollout().get("onFailure") == "RollBack")


def test_an_uninstall_keeps_definition_and_objects_and_the_next_install_takes_them_over(
    upgraded: Place,
) -> None:
    before = upgraded.model(STORED)["metadata"]["uid"]
    upgraded.helm("uninstall", RELEASE)
    assert upgraded.model(STORED)["metadata"]["uid"] == before
    assert upgraded.server.get("deployment", STORED) is not None
    upgraded.helm.deploy(CHART, {})
    path = r"jsonpath={.metadata.annotations.outrider\.dev/version}"
    assert upgraded.server.kubectl("get", "crd", CRD, "-o", path) == __version__
    assert upgraded.model(STORED)["metadata"]["uid"] == before


def without_rules(definition: Any) -> Any:
    """The same definition without its rules."""
    if isinstance(definition, list):
        return [without_rules(each) for each in definition]
    if isinstance(definition, dict):
        kept = definition.keys() - {"x-kubernetes-validations"}
        return {name: without_rules(definition[name]) for name in kept}
    return definition
