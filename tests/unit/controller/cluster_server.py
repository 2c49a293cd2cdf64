"""An API server that is just enough for whole operators: Leases, reviews, and what is applied."""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from kubernetes.aio.client import ApiClient, Configuration

from outrider.cluster.resources import LEASES, MODELS, Resource

_PATH = re.compile(
    r"(?P<root>/apis/[^/]+/[^/]+|/api/v1)(/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(/(?P<name>[^/]+))?(?P<status>/status)?"
)
_DISCOVERY = re.compile(r"/apis/[^/]+/[^/]+")


class ClusterServer:
    """Objects by path, with optimistic locking for those that are replaced.

    asked: method and path of each request. writes: those that may have changed something.
    refuse: the HTTP status with which a request fails, or what is said of a right that is missing; None
    where it works.
    managers: users whom a review allows to manage models.
    add_ons: kinds that discovery lists.
    """

    def __init__(self) -> None:
        self.url = ""
        self.objects: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.writes: list[str] = []
        self.refuse: Callable[[web.Request], int | str | None] = _works
        self.managers: set[str] | None = None
        self.add_ons: set[Resource] = set()
        self._parts: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self._version = 100

    def add(self, resource: Resource, raw: dict[str, Any]) -> None:
        """Put an object there."""
        metadata = raw["metadata"]
        self._keep(resource.path(metadata["namespace"], metadata["name"]), raw)

    def find(self, resource: Resource, name: str, namespace: str = "default") -> dict[str, Any] | None:
        return self.objects.get(resource.path(namespace, name))

    def of(self, resource: Resource, *, namespace: str = "default") -> list[dict[str, Any]]:
        return [raw for path, raw in self.objects.items() if path.startswith(resource.path(namespace))]

    def conditions(self, model: str) -> dict[str, dict[str, Any]]:
        """By type."""
        found = self.find(MODELS, model) or {}
        return {each["type"]: each for each in found.get("status", {}).get("conditions", ())}

    def lease(self, namespace: str) -> dict[str, Any]:
        found = self.find(LEASES, "outrider", namespace)
        assert found is not None
        return found

    def edit_lease(self, namespace: str, **spec: Any) -> None:
        """Fields that another client writes into the spec."""
        lease = self.lease(namespace)
        self._keep(
            LEASES.path(namespace, "outrider"),
            {**lease, "spec": {**lease["spec"], **spec}},
        )

    def heal(self) -> None:
        """No request fails any more."""
        self.refuse = _works

    async def answer(self, request: web.Request) -> web.Response:
        method, path = request.method, request.path
        if _DISCOVERY.fullmatch(path):  # Everybody may ask.
            kinds = [{"name": kind.plural} for kind in self.add_ons if path == f"/apis/{kind.api_version}"]
            return web.json_response({"resources": kinds}) if kinds else _failure(404)
        self.asked.append(f"{method} {path}")
        status = self.refuse(request)
        if isinstance(status, str):
            return _failure(403, status)
        if status is not None:
            return _failure(status)
        body = json.loads(await request.text() or "{}")
        return self._answer(request, method, path, body)

    def _answer(self, request: web.Request, method: str, path: str, body: dict[str, Any]) -> web.Response:
        found = _PATH.fullmatch(path)
        assert found is not None, path
        if found["plural"] == "subjectaccessreviews":
            allowed = self.managers is None or body["spec"]["user"] in self.managers
            return web.json_response({**body, "status": {"allowed": allowed}}, status=201)
        if method == "GET" and found["name"] is None:
            return self._list(found, request.query.get("fieldSelector", ""))
        if method == "GET":
            known = self.objects.get(path)
            return _failure(404) if known is None else web.json_response(known)
        if found["plural"] != "leases":
            self.writes.append(f"{method} {path}")
        match method:
            case "POST":
                path = f"{path}/{body['metadata']['name']}"
                if path in self.objects:
                    return _failure(409)
                body["metadata"]["creationTimestamp"] = datetime.now(UTC).isoformat()
                return web.json_response(self._keep(path, body), status=201)
            case "PUT":
                known = self.objects.get(path)
                if known is None or not _same_version(known, body):
                    return _failure(409)
                return web.json_response(self._keep(path, body))
            case "DELETE":
                return web.json_response(self.objects.pop(path, {}))
        manager = request.query["fieldManager"]
        return web.json_response(self._apply(path.removesuffix("/status"), body, manager))

    def _list(self, asked: re.Match[str], selector: str) -> web.Response:
        only = selector.removeprefix("metadata.name=")
        items = [
            raw
            for path, raw in self.objects.items()
            if (found := _PATH.fullmatch(path)) is not None
            and (found["root"], found["plural"]) == (asked["root"], asked["plural"])
            and asked["namespace"] in (None, found["namespace"])
            and only in ("", found["name"])
        ]
        return web.json_response({"metadata": {"resourceVersion": str(self._version)}, "items": items})

    def _apply(self, path: str, body: dict[str, Any], manager: str) -> dict[str, Any]:
        before = self.objects.get(path, {"metadata": {"uid": f"uid-of-{path}"}})
        merged = {**before, **body, "metadata": {**before["metadata"], **body["metadata"]}}
        if "status" in body:
            parts = self._parts[path]
            parts[manager] = body["status"]
            merged["status"] = {key: value for part in parts.values() for key, value in part.items()}
            merged["status"]["conditions"] = [
                condition for part in parts.values() for condition in part.get("conditions", ())
            ]
        return self._keep(path, merged)

    def _keep(self, path: str, raw: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        found = _PATH.fullmatch(path)
        assert found is not None
        metadata = {**raw["metadata"], "resourceVersion": str(self._version), "namespace": found["namespace"]}
        self.objects[path] = {**raw, "metadata": metadata}
        return self.objects[path]


def _works(_: web.Request) -> None:
    return None


def _same_version(known: dict[str, Any], body: dict[str, Any]) -> bool:
    return bool(known["metadata"]["resourceVersion"] == body["metadata"].get("resourceVersion"))


_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


def verb_of(request: web.Request) -> str:
    """What Kubernetes calls a request."""
    found = _PATH.fullmatch(request.path)
    assert found is not None, request.path
    reading = "get" if found["name"] else "watch" if "watch" in request.query else "list"
    return _VERBS.get(request.method, reading)


def resource_of(request: web.Request) -> tuple[str, str]:
    """Its group, empty for the core API, and its resource, with the subresource."""
    found = _PATH.fullmatch(request.path)
    assert found is not None, request.path
    group = "" if found["root"].startswith("/api/") else found["root"].split("/")[2]
    return group, found["plural"] + (found["status"] or "")


def _failure(status: int, message: str = "no") -> web.Response:
    return web.json_response({"kind": "Status", "code": status, "message": message}, status=status)


@asynccontextmanager
async def a_cluster_server() -> AsyncIterator[ClusterServer]:
    server = ClusterServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = "http://{}:{}".format(*runner.addresses[0][:2])
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def a_connection(server: ClusterServer, user: str = "somebody") -> AsyncIterator[ApiClient]:
    """user: as the header User-Agent says."""
    configuration = Configuration()
    configuration.host = server.url
    api = ApiClient(configuration)
    api.user_agent = user
    try:
        yield api
    finally:
        await api.close()  # type: ignore[no-untyped-call]


async def until(condition: Callable[[], object]) -> None:
    """Look until something holds.

    It has two minutes: a program that a busy machine starts needs one.
    """
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.01)
