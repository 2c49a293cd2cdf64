"""Short ways to say what lies in the cluster, and an API server that answers by script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from kubernetes.aio.client import ApiClient, Configuration

from outrider.cluster.client import ClientLimits, ClusterClient
from outrider.cluster.objects import Child
from outrider.cluster.ownership import Owner

Answer = Callable[[], web.Response]

OWNER = Owner("default", "m", "uid-m")


def a_child(
    name: str = "m",
    *,
    kind: str = "Service",
    owner_uid: str | None = OWNER.uid,
    owner_name: str = OWNER.name,
    owner_kind: str = "SpeculativeModel",
    managers: tuple[str, ...] = (),
) -> Child:
    """owner_uid: None for an object without a controlling owner."""
    owner = {"kind": owner_kind, "name": owner_name, "uid": owner_uid, "controller": True}
    return Child.model_validate(
        {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "ownerReferences": [owner] if owner_uid else [],
                "managedFields": [{"manager": manager, "operation": "Apply"} for manager in managers],
            },
        }
    )


def a_manifest(name: str = "m", *, kind: str = "Service", **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        **fields,
    }


@dataclass
class ScriptedServer:
    """Answers requests from a list, the last entry for ever; remembers what it was asked."""

    answers: list[Answer]
    asked: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    async def __call__(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path_qs}")
        self.headers.append(request.headers)
        self.bodies.append(await request.text())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer()


def answer(body: dict[str, Any], *, status: int = 200, retry_after: int | None = None) -> Answer:
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return lambda: web.json_response(body, status=status, headers=headers)


def refusal(status: int, message: str = "no", *, retry_after: int | None = None) -> Answer:
    return answer({"kind": "Status", "message": message}, status=status, retry_after=retry_after)


def raw_answer(text: str) -> Answer:
    return lambda: web.Response(text=text, content_type="application/json")


@asynccontextmanager
async def a_cluster(
    *answers: Answer, fence: Callable[[], None] = lambda: None, limits: ClientLimits | None = None
) -> AsyncIterator[tuple[ClusterClient, ScriptedServer]]:
    """A client that talks real HTTP to a scripted server."""
    script = ScriptedServer(list(answers))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.__call__)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    configuration = Configuration()
    host, port = runner.addresses[0][:2]
    configuration.host = f"http://{host}:{port}"
    client = ClusterClient(ApiClient(configuration), fence=fence, limits=limits or ClientLimits())
    try:
        yield client, script
    finally:
        await client.aclose()
        await runner.cleanup()


def crash() -> None:
    """What ends a loop."""
    raise SystemExit("out of memory")
