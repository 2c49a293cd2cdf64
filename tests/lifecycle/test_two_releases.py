"""Two releases, each with namespaces of its own: their operators run with the rights that Helm gave them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import pytest

from tests.environment.place import OPERATOR_IMAGE
from tests.lifecycle.api_server import ApiServer, an_api_server
from tests.lifecycle.operators import the_operator_of
from tests.lifecycle.releases import CHART, CRD, Helm, image_values
from tests.lifecycle.stored_models import KIND, a_model, eventually, is_taken

TEAMS = ("team-a", "team-b")


@dataclass(frozen=True)
class Place:
    """An API server; operators by the team whose models they watch, to be ended one by one."""

    server: ApiServer
    operators: dict[str, ExitStack]

    def has_replicas(self, team: str, wanted: int) -> bool:
        """Whether the Deployment of the team's model asks for so many."""
        found = self.server.get("deployment", "m", team)
        return found is not None and found["spec"]["replicas"] == wanted

    def scale(self, team: str, replicas: int) -> None:
        """What a user wants."""
        self.server.kubectl("scale", KIND, "m", "-n", team, f"--replicas={replicas}")

    def leader(self, team: str) -> str:
        """Who holds the Lease of the team's release."""
        found = self.server.get("lease", "outrider", home(team))
        return str(found["spec"]["holderIdentity"]) if found else ""


def home(team: str) -> str:
    return f"{team}-operator"


@pytest.fixture(scope="module")
def place(helm_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The first release brings the definition; both have an operator and a model."""
    with an_api_server(tmp_path_factory.mktemp("api-server")) as server, ExitStack() as all_of_it:
        operators: dict[str, ExitStack] = {}
        for team in TEAMS:
            server.kubectl("create", "namespace", team)
            helm = Helm(helm_program, home(team), server.environment)
            first = team == TEAMS[0]
            helm.deploy(CHART, {"watchNamespaces": [team], "crds": {"install": first}})
            server.until_established(CRD)
            operators[team] = all_of_it.enter_context(ExitStack())
            operators[team].enter_context(the_operator_of(server, home(team)))
            eventually("a model is taken", partial(is_taken, server, a_model(namespace=team)))
        yield Place(server, operators)


def test_both_lead_and_each_reconciles_its_model(place: Place) -> None:
    for team in TEAMS:
        eventually(f"{team} is reconciled", partial(place.has_replicas, team, 1))
    leaders = {place.leader(team) for team in TEAMS}
    assert len(leaders) == 2
    assert "" not in leaders


@pytest.mark.parametrize(("mine", "other"), [TEAMS, TEAMS[::-1]])
def test_neither_may_write_what_is_the_others(place: Place, mine: str, other: str) -> None:
    account = f"system:serviceaccount:{home(mine)}:outrider"

    def may(namespace: str) -> bool:
        words = ("auth", "can-i", "patch", "deployments.apps", "-n", namespace, "--as", account)
        try:
            return place.server.kubectl(*words).strip() == "yes"
        except AssertionError:
            return False

    assert (may(mine), may(other)) == (True, False)


def test_the_one_whose_operator_is_gone_waits_and_the_other_works_on(place: Place) -> None:
    gone, left = TEAMS
    place.operators[gone].close()
    place.scale(gone, 2)
    place.scale(left, 2)
    eventually("the other one scales", partial(place.has_replicas, left, 2))
    place.scale(left, 3)
    eventually("and again", partial(place.has_replicas, left, 3))
    assert place.has_replicas(gone, 1)


def test_a_second_release_that_would_bring_the_definition_again_is_refused(
    place: Place, helm_program: str
) -> None:
    third = Helm(helm_program, "team-c-operator", place.server.environment)
    with pytest.raises(AssertionError, match=CRD):
        third.deploy(CHART, {"watchNamespaces": ["team-a"]})


def test_a_second_release_in_the_namespace_of_another_is_refused(place: Place, helm_program: str) -> None:
    """Both would share a Lease, and one would never serve."""
    helm = Helm(helm_program, home(TEAMS[0]), place.server.environment)
    values = {**image_values(OPERATOR_IMAGE), "watchNamespaces": ["team-c"], "crds": {"install": False}}
    with pytest.raises(AssertionError, match=r"outrider-leader-election.*cannot be imported"):
        helm("install", "other", str(CHART), "--values", "-", stdin=json.dumps(values))
