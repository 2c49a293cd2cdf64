"""Which cluster the set-up uses, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tests.environment.place import CLUSTER, Place, Shell
from tests.environment.runner import StageError


class Cluster(StrEnum):
    """local: kind with a node image built here. published: kind with its own image. existing: not ours."""

    LOCAL = "local"
    PUBLISHED = "published"
    EXISTING = "existing"


@dataclass(frozen=True)
class Choice:
    """The cluster, its context, and why. `kubeconfig` is the person's own, empty for kubectl's default."""

    cluster: Cluster
    context: str
    reason: str
    kubeconfig: str = ""


def choose(
    environment: Mapping[str, str],
    *,
    foreign_docker: Callable[[], bool],
    registry: Callable[[], bool],
) -> Choice:
    """OUTRIDER_CLUSTER decides, then KUBECONTEXT, then what the machine offers.

    foreign_docker: whether a Docker Engine works that this set-up did not start.
    registry: whether that Docker Engine can fetch kind's node image.
    """
    context = environment.get("KUBECONTEXT", "")
    kubeconfig = environment.get("KUBECONFIG", "")
    ours = f"kind-{CLUSTER}"
    wanted = environment.get("OUTRIDER_CLUSTER", "")
    if wanted:
        if wanted not in [cluster.value for cluster in Cluster]:
            raise StageError(f"OUTRIDER_CLUSTER={wanted!r} is not one of local, published, existing")
        if wanted == Cluster.EXISTING and not context:
            raise StageError("OUTRIDER_CLUSTER=existing needs KUBECONTEXT=<context>")
        chosen = Cluster(wanted)
        target = context if chosen is Cluster.EXISTING else ours
        return Choice(chosen, target, "OUTRIDER_CLUSTER says so", kubeconfig)
    if context:
        return Choice(Cluster.EXISTING, context, "KUBECONTEXT is set", kubeconfig)
    if not foreign_docker():
        return Choice(Cluster.LOCAL, ours, "no Docker Engine but our own")
    if not registry():
        return Choice(Cluster.LOCAL, ours, "Docker works, but no registry with the node image answers")
    return Choice(Cluster.PUBLISHED, ours, "Docker and a registry work")


@dataclass(frozen=True)
class Setup:
    """What the stages are made from."""

    place: Place
    shell: Shell
    choice: Choice
