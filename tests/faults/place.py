"""One API server with the controllers of Deployments and of garbage, and a node that is played."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx
from aiohttp import web

from tests.cluster.kubectl import Object
from tests.faults.client import Client
from tests.faults.gate import Gate
from tests.faults.loops import Loop, a_loop
from tests.faults.pods import NODE, Pods
from tests.lifecycle.api_server import ApiServer, an_api_server, running
from tests.lifecycle.releases import CRD, ROOT
from tests.ports import free_port

_CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
)
_MERGE = {"Content-Type": "application/merge-patch+json"}
_BEARER = {"Authorization": "Bearer of-the-test"}
MODELS = "/apis/outrider.dev/v1alpha1/namespaces/{}/speculativemodels"


class Api:
    """Reads and writes as a user does."""

    def __init__(self, server: ApiServer) -> None:
        limits = httpx.Limits(max_connections=32)
        self._http = httpx.Client(
            base_url=f"https://127.0.0.1:{server.port}",
            verify=False,
            headers=_BEARER,
            timeout=60.0,
            limits=limits,
        )

    def get(self, path: str) -> Object | None:
        """One object or list; None if it does not exist."""
        answer = self._http.get(path)
        return None if answer.status_code == 404 else _done(answer)

    def text(self, path: str) -> str:
        """What is answered, as text, also as a refusal."""
        return self._http.get(path).text

    def items(self, path: str) -> list[Object]:
        """The objects of a list."""
        found = self.get(path)
        return [] if found is None else list(found["items"])

    def create(self, path: str, manifest: Mapping[str, Any]) -> Object:
        """In this collection."""
        return _done(self._http.post(path, json=manifest))

    def patch(self, path: str, change: Mapping[str, Any]) -> Object:
        """By merging."""
        return _done(self._http.patch(path, json=change, headers=_MERGE))

    def delete(self, path: str) -> None:
        """In the background, as kubectl does."""
        answer = self._http.delete(path)
        if answer.status_code != 404:
            _done(answer)


def _done(answer: httpx.Response) -> Object:
    assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.text[:500]}"
    found: Object = answer.json()
    return found


class Place:
    """Where models live. Each life has a namespace of its own.

    engine_port: of all engines.
    """

    def __init__(self, server: ApiServer, loop: Loop, engine_port: int) -> None:
        self.server = server
        self.loop = loop
        self.api = Api(server)
        self.engine_port = engine_port
        self.url = f"https://127.0.0.1:{server.port}"
        self._gates: dict[str, Gate] = {}
        self.pods: Pods

    def gate_of_engines(self, namespace: str, kill: Callable[[], None] = lambda: None) -> Gate:
        """Before the engines of a namespace. kill: of the first call counts."""
        return self._gates.setdefault(namespace, Gate(kill))

    def client_of(self, namespace: str, service: str) -> Client:
        """One that sends requests as this Service leads them. It does not run yet."""
        return Client(self.loop, self.url, self.pods.of(namespace), namespace, service)

    def create_namespace(self, name: str) -> None:
        """An empty one."""
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})

    async def play(self) -> None:
        """Play the node until cancelled."""
        connector = aiohttp.TCPConnector(ssl=False, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            headers=_BEARER, timeout=timeout, connector=connector, read_bufsize=2**22
        ) as http:
            self.pods = Pods(self.url, http, self.gate_of_engines)
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", self.pods.answer)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            try:
                await web.TCPSite(runner, "0.0.0.0", self.engine_port, backlog=1024).start()
                await asyncio.gather(self.pods.watch(), self.pods.look_forever())
            finally:
                await runner.cleanup()


@contextmanager
def a_place(folder: Path) -> Iterator[Place]:
    """In the block it runs. folder: an empty one."""
    with an_api_server(folder) as server:
        for file in (ROOT / "crds").glob("*.yaml"):
            server.kubectl("apply", "--server-side", "-f", str(file))
        server.until_established(CRD)
        server.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        manager = [
            # A file of its own: the one of the tests is written again at each use.
            f"--kubeconfig={server.kubeconfig('manager')}",
            f"--controllers={','.join(_CONTROLLERS)}",
            "--leader-elect=false",
            f"--secure-port={free_port()}",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ]
        with running("kube-controller-manager", manager, folder / "manager.log"), a_loop() as loop:
            place = Place(server, loop, free_port())
            loop.start(place.play())
            yield place
