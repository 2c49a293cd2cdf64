"""An own cluster of several machines: one for the control plane and two workers.

Machines are containers. Killing one is the loss of a machine: nothing on it ends in order or reports its end,
and its addresses stop answering. It keeps its disk, so it can be started again. One can be cut
off from the network as well, by its own packet filter.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from kubernetes import config
from urllib3 import HTTPResponse, Retry
from urllib3.exceptions import HTTPError

from tests.cluster.api_server import path
from tests.cluster.kubectl import Object
from tests.environment.choice import Cluster, Setup
from tests.environment.place import NODE_IMAGE, locate
from tests.environment.runner import StageError
from tests.environment.up import survey
from tests.lifecycle.programs import printed

NAME = "outrider-nodes"
WORKERS = 2
_SECONDS = 10.0
_ANSWER_SECONDS = 120.0
_AGAIN = Retry(connect=2, read=1, redirect=0)
"""An idle connection may be closed at the moment when it is used."""
_ENDS = 5
"""A machine that is busy with others needs more than one order to end a container."""


@dataclass(frozen=True)
class Nodes:
    """Those of a cluster that is up."""

    kubeconfig: Path

    @property
    def environment(self) -> dict[str, str]:
        """For programs that talk to it."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """What kubectl prints.

        Raises:
            AssertionError: it ended with an error, which is the message.
        """
        return printed("kubectl", *words, stdin=stdin, environment=self.environment)

    def apply(self, manifest: Mapping[str, Any]) -> None:
        """``kubectl apply``."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def get(self, kind: str, name: str, namespace: str = "default") -> Object:
        """One object."""
        found: Object = json.loads(self._read(path(kind, namespace, name)))
        return found

    def pods(self, selector: str, namespace: str = "default") -> dict[str, Object]:
        """By name."""
        items = json.loads(self._read(path("pods", namespace), labelSelector=selector))["items"]
        return {pod["metadata"]["name"]: pod for pod in items}

    def page(self, pod: str, port: int, namespace: str = "default") -> str | None:
        """What a pod shows on ``/metrics``; None while it does not answer."""
        try:
            return self._read(f"{path('pods', namespace, pod)}:{port}/proxy/metrics")
        except AssertionError:
            return None

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """What is answered to this request; for those that a server takes its time for."""
        answer: dict[str, Any] = json.loads(self._ask("POST", path, seconds=_ANSWER_SECONDS, json=body))
        return answer

    def _read(self, path: str, **query: str) -> str:
        return self._ask("GET", path + (f"?{urlencode(query)}" if query else ""), seconds=_SECONDS)

    def _ask(self, method: str, path: str, *, seconds: float, **body: Any) -> str:
        """On a connection that stays open: a kubectl for each look would take a core of a small machine."""
        api = self._api
        url, pool = f"{api.configuration.host}{path}", api.rest_client.pool_manager
        try:
            answer: HTTPResponse = pool.request(method, url, timeout=seconds, retries=_AGAIN, **body)
        except HTTPError as error:
            raise AssertionError(f"{method} {path}: {error}") from error
        text = answer.data.decode()
        assert answer.status == HTTPStatus.OK, f"{method} {path}: {answer.status} {text.strip()}"
        return text

    @cached_property
    def _api(self) -> Any:
        return config.new_client_from_config(config_file=str(self.kubeconfig))  # type: ignore[no-untyped-call]


@contextmanager
def several_nodes(folder: Path, *images: str) -> Iterator[Nodes]:
    """In the block they are ready and have the images; afterwards they are gone.

    folder: for the credentials, which no other cluster's file gets.
    """
    setup = _setup()
    named = ("--name", NAME, "--kubeconfig", str(folder / "nodes.kubeconfig"))
    _delete(*named)
    try:
        made = ("--image", NODE_IMAGE, "--config", "-", "--wait", "180s")
        printed("kind", "create", "cluster", *named, *made, stdin=_configuration(setup))
        nodes = Nodes(folder / "nodes.kubeconfig")
        nodes.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=180s")
        for image in images:
            printed("kind", "load", "docker-image", "--name", NAME, image)
        yield nodes
    finally:
        _delete(*named)


def _delete(*named: str) -> None:
    for left in reversed(range(_ENDS)):
        try:
            printed("kind", "delete", "cluster", *named)
        except AssertionError:
            if not left:
                raise
        else:
            return


def lose(node: str) -> None:
    """At once, with everything that runs on it."""
    printed("docker", "kill", node)


def bring_back(node: str) -> None:
    """It starts with the disk that it had."""
    printed("docker", "start", node)


def cut_off(node: str) -> None:
    """All packets from and to other machines are dropped; what runs there runs on."""
    _drop(node, "--insert")


def connect_again(node: str) -> None:
    """Packets pass as before."""
    _drop(node, "--delete")


def _drop(node: str, how: str) -> None:
    for chain, side in (("INPUT", "-i"), ("OUTPUT", "-o"), ("FORWARD", "-i"), ("FORWARD", "-o")):
        printed("docker", "exec", node, "iptables", how, chain, side, "eth0", "-j", "DROP")


def _setup() -> Setup:
    try:
        setup = survey(locate(os.environ))
    except StageError as error:
        pytest.fail(str(error))
    if setup.choice.cluster is Cluster.EXISTING:
        pytest.skip("machines can be lost in a cluster of containers alone, and this one is somebody's")
    return setup


def _configuration(setup: Setup) -> str:
    """That of the cluster of one node, and workers with the same folders of the host."""
    template = (setup.place.here / "cluster" / f"{setup.choice.cluster}.yaml").read_text()
    content = yaml.safe_load(template.replace("@CACHE@", str(setup.place.cache)))
    worker = {**content["nodes"][0], "role": "worker"}
    content["nodes"] += [worker] * WORKERS
    text: str = yaml.safe_dump(content)
    return text
