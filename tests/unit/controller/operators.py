"""Whole operators against a scripted API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web

from outrider.api.launch import Launch
from outrider.api.resource import SpeculativeModel
from outrider.cluster.installation import Claim
from outrider.cluster.resources import (
    BUDGETS,
    DEPLOYMENTS,
    INFERENCE_POOLS,
    JOBS,
    LEASES,
    MODELS,
    PODS,
    Resource,
)
from outrider.controller import leader, process
from outrider.controller.settings import Settings
from outrider.plan import Role, revision
from outrider.plan.names import labels
from outrider.plan.rollout import ANNOTATION, Failed, Good, Memory
from tests.unit.cluster.installations import a_raw_lease
from tests.unit.controller.cluster_server import (
    ClusterServer,
    a_cluster_server,
    a_connection,
    resource_of,
    verb_of,
)
from tests.unit.controller.factories import a_condition, a_raw_model, a_raw_pod

HOME = "operators"


class Right(NamedTuple):
    """One verb on one resource. group: empty for the core API."""

    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"

    @property
    def complaint(self) -> str:
        """Part of what the API server says without it."""
        return f'cannot {self.verb} resource "{self.resource}" in API group "{self.group}"'


SETTINGS = Settings(lease_namespace=HOME, control_peers={"app": "outrider"})


def denying(server: ClusterServer, right: Right) -> Callable[[web.Request], str | None]:
    """An API server that grants everything else. To apply what is not there takes the right to create."""

    def refuse(request: web.Request) -> str | None:
        return f'forbidden: User "outrider" {right.complaint}' if right in needed(server, request) else None

    return refuse


def needed(server: ClusterServer, request: web.Request) -> set[Right]:
    """The rights that a request takes."""
    asked = Right(verb_of(request), *resource_of(request))
    creates = request.method == "PATCH" and request.path.removesuffix("/status") not in server.objects
    return {asked, asked._replace(verb="create")} if creates else {asked}


def of_yesterday(resource: Resource, name: str, *, model: str) -> dict[str, Any]:
    """A child of a model that its plan names no more."""
    kind = {"apiVersion": MODELS.api_version, "kind": MODELS.kind}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "resourceVersion": "1",
            "labels": labels(model),
            "ownerReferences": [{**kind, "name": model, "uid": f"uid-{model}", "controller": True}],
        },
        "spec": {},
    }


def taken_back(model: str) -> dict[str, Any]:
    """The Deployment of a model whose rollout has failed."""
    raw = a_raw_model(model, uid=f"uid-{model}", replicas=2)
    spec = revision(
        SpeculativeModel.of_stored(raw), Launch(), Role.REPLICA, settings=leader.plan_settings(SETTINGS)
    )
    assert spec is not None
    memory = Memory(good=Good(revision="r1"), failed=Failed(spec=spec, reason="Any", message="of them"))
    deployment = of_yesterday(DEPLOYMENTS, model, model=model)
    deployment["metadata"]["annotations"] = {ANNOTATION: str(memory)}
    return deployment


@asynccontextmanager
async def an_operator(right: Right | None) -> AsyncIterator[ClusterServer]:
    """It runs in a cluster where everything happens for which it needs a right, and lacks this one."""
    async with a_cluster_server() as server:
        was_ready = {"conditions": [a_condition("Ready", reason="Serving")]}
        server.add_ons.add(INFERENCE_POOLS)
        pool = {"endpointPicker": {"service": "m"}}
        server.add(MODELS, a_raw_model(status=was_ready, inferencePool=pool))
        server.add(PODS, a_raw_pod())
        server.add(DEPLOYMENTS, of_yesterday(DEPLOYMENTS, "m-canary", model="m"))
        server.add(MODELS, a_raw_model("w", uid="uid-w", model={"uri": "hf://a/b"}, cache={"size": "1Gi"}))
        server.add(JOBS, of_yesterday(JOBS, "w-dl-0", model="w"))
        server.add(BUDGETS, of_yesterday(BUDGETS, "m-engines", model="m"))
        server.add(MODELS, a_raw_model("r", uid="uid-r", replicas=2))
        server.add(INFERENCE_POOLS, of_yesterday(INFERENCE_POOLS, "w", model="w"))
        server.add(DEPLOYMENTS, taken_back("r"))
        other = Claim(frozenset({"elsewhere"}), "outrider")
        server.add(LEASES, a_raw_lease("b", annotations=other.annotations()))
        if right is not None:
            server.refuse = denying(server, right)
        async with a_connection(server) as api:
            task = asyncio.create_task(process.operate(SETTINGS, api))
            try:
                yield server
            finally:
                task.cancel()
                await asyncio.wait([task])
