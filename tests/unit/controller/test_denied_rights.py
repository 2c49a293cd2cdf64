"""For each right of the chart's roles: without it, a condition or the log names it; and no other is used."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from aiohttp import web

from tests.unit.chart.kit import needs_helm, render, rules
from tests.unit.controller.cluster_server import (
    ClusterServer,
    until,
)
from tests.unit.controller.operators import Right, an_operator, needed

pytestmark = pytest.mark.usefixtures("quick_operators")


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
            *all_of("inference.networking.k8s.io", "inferencepools", "get", "create", "patch", "delete"),
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
    # Objects that a target names: tests/unit/controller/test_targets.py.
    Right("get", "apps", "statefulsets"): "targets",
    Right("get", "serving.kserve.io", "inferenceservices"): "targets",
    Right("get", "serving.kserve.io", "llminferenceservices"): "targets",
    Right("get", "leaderworkerset.x-k8s.io", "leaderworkersets"): "targets",
}


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
