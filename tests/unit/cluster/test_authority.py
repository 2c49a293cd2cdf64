from __future__ import annotations

import json

import pytest

from outrider.cluster.errors import Refused
from outrider.cluster.installation import Claim
from outrider.cluster.reviews import Authority
from tests.unit.cluster.factories import Answer, a_cluster, answer, refusal
from tests.unit.cluster.installations import an_installation

EVERYWHERE = Claim()
YES, NO = answer({"status": {"allowed": True}}), answer({"status": {"allowed": False}})


async def test_asks_whether_the_operators_account_may_write_the_status_of_all_models() -> None:
    async with a_cluster(YES) as (cluster, server):
        seen = an_installation("a")
        assert await Authority(cluster).believed(seen, within=EVERYWHERE) == seen

    spec = json.loads(server.bodies[0])["spec"]
    assert server.asked == ["POST /apis/authorization.k8s.io/v1/subjectaccessreviews"]
    assert spec["user"] == "system:serviceaccount:a:outrider"
    assert spec["resourceAttributes"] == {
        "group": "outrider.dev",
        "resource": "speculativemodels",
        "subresource": "status",
        "verb": "patch",
        "namespace": "",
    }


@pytest.mark.parametrize("no", [NO, answer({}), answer({"status": {"allowed": "yes"}})])
async def test_a_claim_that_is_not_true_is_not_believed(no: Answer) -> None:
    async with a_cluster(no) as (cluster, _):
        assert await Authority(cluster).believed(an_installation(), within=EVERYWHERE) is None


async def test_of_several_namespaces_the_true_ones_count() -> None:
    async with a_cluster(YES, NO) as (cluster, _):
        believed = await Authority(cluster).believed(an_installation(watches="x y"), within=EVERYWHERE)

    assert believed == an_installation(watches="x")


async def test_only_namespaces_that_matter_are_asked_about() -> None:
    async with a_cluster(YES) as (cluster, server):
        own = an_installation(watches="y").claim
        believed = await Authority(cluster).believed(an_installation(watches="x y z"), within=own)

    assert believed == an_installation(watches="y")
    assert len(server.asked) == 1


async def test_an_answer_is_remembered_for_some_minutes() -> None:
    now = 0.0
    async with a_cluster(NO, YES) as (cluster, server):
        authority = Authority(cluster, clock=lambda: now)
        for at in (0.0, 299.0):
            now = at
            assert await authority.believed(an_installation(), within=EVERYWHERE) is None
        now = 301.0
        assert await authority.believed(an_installation(), within=EVERYWHERE) is not None
    assert len(server.asked) == 2


async def test_an_operator_that_may_not_ask_is_told() -> None:
    async with a_cluster(refusal(403, "may not review")) as (cluster, _):
        with pytest.raises(Refused, match="may not review"):
            await Authority(cluster).believed(an_installation(), within=EVERYWHERE)
