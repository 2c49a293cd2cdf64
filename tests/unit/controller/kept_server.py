"""An API server that keeps what is applied, just enough for reconcile."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from kubernetes.aio.client import ApiClient, Configuration

from outrider.cluster.client import ClusterClient
from outrider.cluster.resources import MODELS, PODS, Resource


class KeptServer:
    """Objects by path. ``writes``: the paths that were written or deleted."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self._version = 100

    def find(self, resource: Resource, name: str) -> dict[str, Any] | None:
        return self.objects.get(resource.path("default", name))

    async def answer(self, request: web.Request) -> web.Response:
        path = request.path
        if request.method == "GET":
            if path == PODS.path("default"):
                pods = [raw for at, raw in self.objects.items() if at.startswith(f"{path}/")]
                return web.json_response({"metadata": {"resourceVersion": "1"}, "items": pods})
            found = self.objects.get(path)
            return web.json_response(found or {}, status=200 if found else 404)
        self.writes.append(f"{request.method} {path}")
        if request.method == "DELETE":
            return web.json_response(self.objects.pop(path, {}))
        return web.json_response(self._apply(path, json.loads(await request.text())))

    def _apply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        path = path.removesuffix("/status")
        before = self.objects.get(path, {"metadata": {"uid": f"uid-of-{body['metadata'].get('name')}"}})
        metadata = {**before["metadata"], **body["metadata"], "resourceVersion": str(self._version)}
        self.objects[path] = {**before, **body, "metadata": metadata}
        return self.objects[path]

    def put_pod(self, raw: dict[str, Any]) -> None:
        self.objects[PODS.path("default", raw["metadata"]["name"])] = raw

    def put_model(self, raw: dict[str, Any]) -> None:
        self.objects[MODELS.path("default", raw["metadata"]["name"])] = raw


@asynccontextmanager
async def a_kept_cluster() -> AsyncIterator[tuple[ClusterClient, KeptServer]]:
    """A client that talks real HTTP to a server that keeps all requests."""
    server = KeptServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = Configuration()
    host, port = runner.addresses[0][:2]
    configuration.host = f"http://{host}:{port}"
    client = ClusterClient(ApiClient(configuration))
    try:
        yield client, server
    finally:
        await client.aclose()
        await runner.cleanup()
