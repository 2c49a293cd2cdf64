"""An API server that is enough for kopf's watches: discovery, lists, and streams of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from outrider.cluster.resources import Resource
from outrider.controller.watch import WATCHED
from tests.unit.controller.cluster_server import ClusterServer

# kopf waits until it knows these two, whether or not it reads them.
_KNOWN = (
    *WATCHED,
    Resource("", "v1", "Namespace", "namespaces"),
    Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
)


class WatchedServer:
    """Lists have what is `listed`; watches deliver what `send` is given.

    cluster: takes all writes, and reads by name.
    listed: by plural. version: of all lists.
    denied: plural of what may be listed and not watched. closed: a namespace in which nothing may be read.
    """

    def __init__(self) -> None:
        self.cluster = ClusterServer()
        self.denied: str | None = None
        self.closed: str | None = None
        self.listed: dict[str, list[dict[str, Any]]] = {}
        self.version = 1
        self.watches: dict[str, list[asyncio.Queue[Mapping[str, Any]]]] = {}
        self.started = asyncio.Condition()
        self.selectors: dict[str, set[str | None]] = {}  # of labels, by plural: in lists and watches

    async def until_watched(self, resource: Resource, times: int) -> None:
        """Wait until a kind is watched for the n-th time."""
        async with asyncio.timeout(120), self.started:
            await self.started.wait_for(lambda: len(self.watches.get(resource.plural, [])) >= times)

    def send(self, resource: Resource, kind: str, body: Mapping[str, Any]) -> None:
        """Deliver one event to the newest watch of a kind."""
        self.watches[resource.plural][-1].put_nowait({"type": kind, "object": body})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        plural = request.path.rsplit("/", 1)[-1]
        if any(plural == resource.plural for resource in WATCHED):
            return await self._collection(request, plural)
        if request.method == "GET" and request.path.count("/") <= 3:
            return web.json_response(discovery(request.path))
        return await self.cluster.answer(request)

    async def _collection(self, request: web.Request, plural: str) -> web.StreamResponse:
        self.selectors.setdefault(plural, set()).add(request.query.get("labelSelector"))
        if f"/namespaces/{self.closed}/" in request.path:
            return _forbidden(f"cannot list resource {plural!r} in the namespace {self.closed!r}")
        if "watch" not in request.query:
            return web.json_response(
                {"metadata": {"resourceVersion": str(self.version)}, "items": self.listed.get(plural, [])}
            )
        if plural == self.denied:
            return _forbidden(f'{plural} is forbidden: User "outrider" cannot watch resource "{plural}"')
        queue: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        async with self.started:
            self.watches.setdefault(plural, []).append(queue)
            self.started.notify_all()
        while True:
            await response.write(json.dumps(await queue.get()).encode() + b"\n")


def _forbidden(message: str) -> web.Response:
    status = {"kind": "Status", "status": "Failure", "code": 403, "message": message}
    return web.json_response(status, status=403)


def discovery(path: str) -> dict[str, Any]:
    """The answer to a question about groups, versions and kinds."""
    if path == "/api":
        return {"versions": ["v1"]}
    if path == "/apis":
        groups = sorted({(resource.group, resource.version) for resource in _KNOWN if resource.group})
        return {"groups": [_group(group, version) for group, version in groups]}
    here = [resource for resource in _KNOWN if resource.path(None).rsplit("/", 1)[0] == path]
    return {"resources": [_resource(resource) for resource in here]}


def _group(group: str, version: str) -> dict[str, Any]:
    known = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [known], "preferredVersion": known}


def _resource(resource: Resource) -> dict[str, Any]:
    return {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "kind": resource.kind,
        "namespaced": True,
        "verbs": ["get", "list", "watch", "patch"],
    }


@asynccontextmanager
async def a_watched_server(folder: Path) -> AsyncIterator[tuple[WatchedServer, Path]]:
    """The server, and a kubeconfig for it in ``folder``."""
    server = WatchedServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(kubeconfig_of(f"http://{host}:{port}"), encoding="utf-8")
    try:
        yield server, kubeconfig
    finally:
        await runner.cleanup()


def kubeconfig_of(url: str) -> str:
    """The text of a kubeconfig for a server without TLS."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return yaml.dump(config)
