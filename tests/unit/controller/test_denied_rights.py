"""For each right of the chart's roles: without it, a condition or the log names it; and no other is used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from outrider.api.launch import Launch
from outrider.api.resource import SpeculativeModel
from outrider.cluster.installation import Claim
from outrider.cluster.resources import BUDGETS, DEPLOYMENTS, JOBS, LEASES, MODELS, PODS, Resource
from outrider.controller import leader, neighbours, process, work_queue
from outrider.controller.settings import Settings
from outrider.controller.watch import ClusterWatch
from outrider.plan import Role, revision
from outrider.plan.names import labels
from outrider.plan.rollout import ANNOTATION, Failed, Good, Memory
from tests.unit.chart.test_chart import needs_helm, render, rules
from tests.unit.cluster.installations import a_raw_lease
from tests.unit.cluster.quick_election import hurry
from tests.unit.controller.cluster_server import (
    ClusterServer,
    a_cluster_server,
    a_connection,
    resource_of,
    until,
    verb_of,
)
from tests.unit.controller.factories import a_condition, a_raw_model, a_raw_pod
from tests.unit.controller.fake_loop import a_kind_of_loop

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


def all_of(group: str, resource: str, *verbs: str) -> Iterator[Right]:
    return (Right(verb, group, resource) for verb in verbs)


READ_AND_WATCHED = (
    ("outrider.dev", "speculativemodels"),
    ("apps", "deployments"),
    ("batch", "jobs"),
    ("policy", "poddisruptionbudgets"),
    ("", "services"),
    ("", "configmaps"),
    ("", "serviceaccounts"),
    ("", "pods"),
)
READ_FIRST = "first read failed"
SETTINGS = Settings(lease_namespace=HOME, control_peers={"app": "outrider"})
WITHOUT: dict[Right, str] = {
    # Read at the beginning; the log says what is missing, and nothing is written before.
    **{Right("list", group, resource): READ_FIRST for group, resource in READ_AND_WATCHED},
    # Children: the model itself says it.
    **dict.fromkeys(
        (
            *all_of("apps", "deployments", "get", "create", "patch", "delete"),
            *all_of("", "services", "get", "create", "patch"),
            *all_of("", "configmaps", "get", "create", "patch"),
            *all_of("", "serviceaccounts", "get", "create", "patch"),
            *all_of("", "secrets", "get", "create", "patch"),
            *all_of("batch", "jobs", "get", "create", "patch", "delete"),
            *all_of("policy", "poddisruptionbudgets", "get", "create", "patch", "delete"),
            *all_of("", "persistentvolumeclaims", "get", "create", "patch"),
            *all_of("apps", "replicasets", "list"),
            *all_of("networking.k8s.io", "networkpolicies", "get", "create", "patch"),
        ),
        "Degraded",
    ),
    # Without a status to say it in, the log does.
    Right("patch", "outrider.dev", "speculativemodels/status"): "failed 1 times",
    Right("create", "events.k8s.io", "events"): "event",
    Right("list", "coordination.k8s.io", "leases"): "cannot detect others",
    Right("create", "authorization.k8s.io", "subjectaccessreviews"): "cannot detect others",
    **dict.fromkeys(
        all_of("coordination.k8s.io", "leases", "get", "create", "update"),
        "cannot write Lease operators/outrider",
    ),
}
ELSEWHERE = {
    # Watches are kopf's: tests/unit/controller/test_watch.py.
    **{Right("watch", group, resource): "watches" for group, resource in READ_AND_WATCHED},
    # The API server checks it, when a child with an owner is applied.
    Right("update", "outrider.dev", "speculativemodels/finalizers"): "the API server",
}


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


@pytest.fixture(autouse=True)
def quick_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(neighbours, "LOOK_SECONDS", 0.05)
    for module in (leader, neighbours, work_queue):
        monkeypatch.setattr(module, "backoff_seconds", lambda _: 0.05)
    monkeypatch.setattr(ClusterWatch, "watch_forever", _forever)
    monkeypatch.setattr(process, "serve", _forever)
    monkeypatch.setattr(leader, "TuningLoop", a_kind_of_loop())


async def _forever(*_: object, **__: object) -> None:
    await asyncio.Event().wait()


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
        server.add(MODELS, a_raw_model(status=was_ready))
        server.add(PODS, a_raw_pod())
        server.add(DEPLOYMENTS, of_yesterday(DEPLOYMENTS, "m-canary", model="m"))
        server.add(MODELS, a_raw_model("w", uid="uid-w", model={"uri": "hf://a/b"}, cache={"size": "1Gi"}))
        server.add(JOBS, of_yesterday(JOBS, "w-dl-0", model="w"))
        server.add(BUDGETS, of_yesterday(BUDGETS, "m-engines", model="m"))
        server.add(MODELS, a_raw_model("r", uid="uid-r", replicas=2))
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


def said(server: ClusterServer, log: pytest.LogCaptureFixture) -> list[str]:
    """Lines of the log, and conditions of the models."""
    conditions = [item for model in ("m", "w", "r") for item in server.conditions(model).items()]
    return [*log.messages, *(f"{kind}: {condition['message']}" for kind, condition in conditions)]


@pytest.mark.parametrize("right", WITHOUT, ids=str)
async def test_without_a_right_somebody_is_told_which(right: Right, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "outrider")
    async with an_operator(right) as server:
        await until(
            lambda: any(right.complaint in line and WITHOUT[right] in line for line in said(server, caplog))
        )


async def test_a_lease_that_cannot_be_made_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    right = Right("create", "coordination.k8s.io", "leases")
    async with an_operator(right) as server:
        await until(lambda: sum(line.startswith("POST") for line in server.asked) > 3)

    assert sum(right.complaint in line for line in caplog.messages) == 1


async def test_with_all_rights_nobody_complains_and_each_is_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    used: set[Right] = set()

    async with an_operator(None) as server:

        def note(request: web.Request) -> None:
            used.update(needed(server, request))

        server.refuse = note
        await until(lambda: used >= WITHOUT.keys())
        assert "Degraded" not in server.conditions("m")

    assert used == WITHOUT.keys()
    assert "cannot" not in caplog.text


@needs_helm
def test_the_roles_of_the_chart_are_these_rights_and_no_other() -> None:
    granted = {
        Right(verb, group, resource)
        for document in render("networkPolicy.enabled=true")
        if document["kind"] in ("Role", "ClusterRole")
        for group, resource, verbs in rules(document)
        for verb in verbs
    }

    assert granted == WITHOUT.keys() | ELSEWHERE.keys()
