import pytest

from tests.environment.choice import Choice, Cluster, choose
from tests.environment.runner import StageError


def chosen(*, docker: bool = False, registry: bool = False, **environment: str) -> Choice:
    return choose(environment, foreign_docker=lambda: docker, registry=lambda: registry)


def test_a_machine_without_docker_builds_its_own_node() -> None:
    assert chosen().cluster is Cluster.LOCAL


def test_docker_with_a_registry_takes_the_published_node() -> None:
    choice = chosen(docker=True, registry=True)

    assert choice.cluster is Cluster.PUBLISHED
    assert choice.context == "kind-outrider"


def test_a_context_takes_the_existing_cluster_with_the_own_kubeconfig() -> None:
    choice = chosen(docker=True, registry=True, KUBECONTEXT="staging", KUBECONFIG="/home/me/config")

    assert (choice.cluster, choice.context, choice.kubeconfig) == (
        Cluster.EXISTING,
        "staging",
        "/home/me/config",
    )


def test_an_existing_cluster_needs_a_context() -> None:
    with pytest.raises(StageError, match="KUBECONTEXT"):
        chosen(OUTRIDER_CLUSTER="existing")
