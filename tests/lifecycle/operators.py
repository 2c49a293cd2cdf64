"""The operator as a process of this machine, on an API server of the test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.lifecycle.api_server import ApiServer, running
from tests.ports import free_port

QUICK = {
    "OUTRIDER_METRICS_SOURCE": "PodScrape",
    "OUTRIDER_TUNING_INTERVAL_SECONDS": "2",
    "OUTRIDER_LOG_FORMAT": "text",
    "OUTRIDER_LEASE_NAMESPACE": "default",
}


@contextmanager
def an_operator(
    server: ApiServer,
    name: str,
    kubeconfig: Path | None = None,
    settings: Mapping[str, str] = QUICK,
    *,
    port: int | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """In the block it runs, and logs to ``name.log`` in the server's folder.

    kubeconfig: the direct one. port: of its metrics; by default any.
    """
    environment = {
        **server.environment,
        **settings,
        "KUBECONFIG": str(kubeconfig or server.kubeconfig()),
        "OUTRIDER_HTTP_PORT": str(port or free_port()),
    }
    with running("outrider", ["run"], server.folder / f"{name}.log", environment) as process:
        yield process


@contextmanager
def the_operator_of(server: ApiServer, namespace: str) -> Iterator[subprocess.Popen[bytes]]:
    """As the release's Deployment would run it: with its settings, and with its account's rights alone."""
    deployment = server.get("deployment", "outrider", namespace)
    assert deployment is not None
    pod = deployment["spec"]["template"]["spec"]
    settings = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    token = server.kubectl("create", "token", pod["serviceAccountName"], "-n", namespace).strip()
    kubeconfig = server.kubeconfig(namespace, token=token)
    where = {"OUTRIDER_LEASE_NAMESPACE": namespace}
    with an_operator(server, namespace, kubeconfig, {**settings, **where}) as process:
        yield process
