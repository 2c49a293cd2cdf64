from __future__ import annotations

import json
from typing import Any

import pytest

from outrider.cluster.errors import Refused
from outrider.cluster.reviews import Act, ServiceAccount, may
from tests.unit.cluster.factories import Answer, a_cluster, answer, refusal

YES = answer({"status": {"allowed": True}})
READ = Act("g", "things", "get", "prod")


async def asked(act: Act, account: ServiceAccount | None) -> tuple[str, dict[str, Any]]:
    """The request, and the spec of its review."""
    async with a_cluster(YES) as (cluster, server):
        assert await may(cluster, act, account=account)
    return server.asked[0], json.loads(server.bodies[0])["spec"]


async def test_the_caller_asks_for_itself_and_names_nobody() -> None:
    request, spec = await asked(READ, None)
    assert request == "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    attributes = {"group": "g", "resource": "things", "verb": "get", "namespace": "prod"}
    assert spec == {"resourceAttributes": attributes}


async def test_for_an_account_it_asks_with_the_groups_of_the_account() -> None:
    request, spec = await asked(READ, ServiceAccount("home", "outrider"))
    assert request == "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert spec["user"] == "system:serviceaccount:home:outrider"
    assert spec["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:home",
        "system:authenticated",
    ]


async def test_a_subresource_and_a_name_are_asked_for_where_they_are_given() -> None:
    _, spec = await asked(Act("g", "things", "get", "prod", subresource="status", name="one"), None)
    attributes = spec["resourceAttributes"]
    assert (attributes["subresource"], attributes["name"]) == ("status", "one")


@pytest.mark.parametrize("no", [{"status": {"allowed": False}}, {}, {"status": {"allowed": "yes"}}])
async def test_only_a_plain_yes_is_one(no: dict[str, Any]) -> None:
    said: Answer = answer(no)
    async with a_cluster(said) as (cluster, _):
        assert not await may(cluster, READ)


async def test_who_may_not_ask_is_told() -> None:
    async with a_cluster(refusal(403, "may not review")) as (cluster, _):
        with pytest.raises(Refused, match="may not review"):
            await may(cluster, READ)
