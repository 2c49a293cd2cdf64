"""The pods of the operator that rules the models of the tests: gone, killed, restarted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.kubectl import Object, kubectl, list_objects, operator_namespace, wait_for

LABEL = "app.kubernetes.io/name=outrider"


@contextmanager
def without_operator() -> Iterator[None]:
    """No operator runs; afterwards a new one does."""
    operator = ("deployment/outrider", "-n", operator_namespace())
    kubectl("scale", *operator, "--replicas=0")
    try:
        wait_for("the operator is gone", operator_pods, lambda left: left is None, seconds=60)
        yield
    finally:
        kubectl("scale", *operator, "--replicas=1")
        kubectl("rollout", "status", *operator, "--timeout=90s")


def kill_operator() -> None:
    """At once, as when its node dies; the Deployment makes another one."""
    which = ("-n", operator_namespace(), "-l", LABEL)
    kubectl("delete", "pod", *which, "--grace-period=0", "--force", "--wait=false")


def operator_pods() -> Object | None:
    """The names of the operator's pods; None without any."""
    pods = list_objects("pods", selector=LABEL, where=operator_namespace())
    return {"status": [pod["metadata"]["name"] for pod in pods]} if pods else None
