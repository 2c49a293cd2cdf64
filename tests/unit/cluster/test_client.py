from __future__ import annotations

import json

import pytest
from aiohttp import web

from outrider.cluster.deep_json import room_for_deep_json
from outrider.cluster.errors import Conflict, NotFound, Refused, Unavailable
from outrider.cluster.lease import NotLeader
from outrider.cluster.resources import DEPLOYMENTS, LEASES, PODS, SERVICES, Resource
from tests.unit.cluster.factories import Answer, a_cluster, a_manifest, answer, raw_answer, refusal

OBJECT = answer({"metadata": {"name": "m"}})


async def test_a_missing_object_is_none() -> None:
    async with a_cluster(refusal(404)) as (cluster, _):
        assert await cluster.get(SERVICES, "default", "m") is None


async def test_asks_for_an_object_of_a_group_by_its_path() -> None:
    async with a_cluster(OBJECT) as (cluster, server):
        await cluster.get(DEPLOYMENTS, "default", "m")
    assert server.asked == ["GET /apis/apps/v1/namespaces/default/deployments/m"]


async def test_applies_as_its_manager_and_takes_over_fields() -> None:
    async with a_cluster(OBJECT) as (cluster, server):
        await cluster.apply(a_manifest(spec={"ports": []}), manager="outrider")
    assert server.asked == ["PATCH /api/v1/namespaces/default/services/m?fieldManager=outrider&force=true"]
    assert json.loads(server.bodies[0])["spec"] == {"ports": []}


async def test_applies_status_to_the_status_only() -> None:
    async with a_cluster(OBJECT) as (cluster, server):
        await cluster.apply_status("default", "m", {"replicas": 1}, manager="outrider-tuner")
    assert server.asked[0].split("?")[0].endswith("/speculativemodels/m/status")
    assert json.loads(server.bodies[0])["status"] == {"replicas": 1}


async def test_a_list_gives_its_items_their_kind() -> None:
    body = {"metadata": {"resourceVersion": "77"}, "items": [{"metadata": {"name": "a"}}]}
    async with a_cluster(answer(body)) as (cluster, server):
        items, version = await cluster.list_all(PODS, None, labels="a=b")
    assert server.asked == ["GET /api/v1/pods?labelSelector=a%3Db"]
    assert (items[0]["kind"], version) == ("Pod", 77)


@pytest.mark.parametrize("status", [409, 429, 500, 503, 504, 401])
async def test_repeats_what_may_pass(status: int) -> None:
    async with a_cluster(refusal(status), OBJECT) as (cluster, server):
        await cluster.apply(a_manifest(), manager="outrider")
    assert len(server.asked) == 2


async def test_repeats_after_a_truncated_answer() -> None:
    async with a_cluster(raw_answer('{"metadata": {'), OBJECT) as (cluster, server):
        await cluster.get(SERVICES, "default", "m")
    assert len(server.asked) == 2


@pytest.mark.parametrize("status", [400, 403, 422])
async def test_does_not_repeat_what_is_refused(status: int) -> None:
    async with a_cluster(refusal(status, "quota exceeded")) as (cluster, server):
        with pytest.raises(Refused, match="quota exceeded"):
            await cluster.apply(a_manifest(), manager="outrider")
    assert len(server.asked) == 1


async def test_gives_up_after_a_few_attempts() -> None:
    async with a_cluster(refusal(409, "object changed")) as (cluster, server):
        with pytest.raises(Conflict, match="object changed"):
            await cluster.apply(a_manifest(), manager="outrider")
    assert len(server.asked) == 4


async def test_an_unreachable_server_is_unavailable() -> None:
    async with a_cluster(OBJECT) as (cluster, _):
        pass
    with pytest.raises(Unavailable):
        await cluster.get(SERVICES, "default", "m")
    await cluster.aclose()


async def test_tells_how_long_the_server_asked_to_wait() -> None:
    error = refusal(429, "slow down", retry_after=0)
    async with a_cluster(error) as (cluster, _):
        with pytest.raises(Unavailable) as caught:
            await cluster.get(SERVICES, "default", "m")
    assert caught.value.retry_after == 0


async def test_deletes_this_very_object_only() -> None:
    async with a_cluster(OBJECT) as (cluster, server):
        await cluster.delete(SERVICES, "default", "m", uid="u1")
    assert json.loads(server.bodies[0])["preconditions"] == {"uid": "u1"}


@pytest.mark.parametrize("status", [404, 409])
async def test_deleting_what_is_gone_or_replaced_is_fine(status: int) -> None:
    async with a_cluster(refusal(status)) as (cluster, _):
        await cluster.delete(SERVICES, "default", "m", uid="u1")


async def test_status_of_a_deleted_model_is_not_found() -> None:
    async with a_cluster(refusal(404)) as (cluster, _):
        with pytest.raises(NotFound):
            await cluster.apply_status("default", "m", {}, manager="outrider")


async def test_writes_nothing_once_the_lease_has_run_out() -> None:
    def run_out() -> None:
        raise NotLeader

    async with a_cluster(OBJECT, fence=run_out) as (cluster, server):
        for write in (
            cluster.apply(a_manifest(), manager="outrider"),
            cluster.apply_status("default", "m", {}, manager="outrider"),
            cluster.create(SERVICES, a_manifest()),
            cluster.delete(SERVICES, "default", "m", uid="u1"),
        ):
            with pytest.raises(NotLeader):
                await write
    assert server.asked == []


async def test_a_write_is_not_repeated_once_the_lease_has_run_out() -> None:
    def run_out_after_the_first() -> None:
        if server.asked:
            raise NotLeader

    async with a_cluster(refusal(503), OBJECT, fence=run_out_after_the_first) as (cluster, server):
        with pytest.raises(NotLeader):
            await cluster.apply(a_manifest(), manager="outrider")
    assert len(server.asked) == 1


async def test_an_unknown_field_is_a_refusal_though_the_server_answers_500() -> None:
    words = "failed to create typed patch object (default/m; v1, Kind=Service): .spec.x: field not declared"
    async with a_cluster(refusal(500, words)) as (cluster, server):
        with pytest.raises(Refused, match="field not declared"):
            await cluster.apply(a_manifest(), manager="outrider")
    assert len(server.asked) == 1


async def test_asks_for_objects_by_field() -> None:
    body = {"metadata": {"resourceVersion": "77"}, "items": []}
    async with a_cluster(answer(body)) as (cluster, server):
        await cluster.list_all(LEASES, None, fields="metadata.name=outrider")
    assert server.asked == ["GET /apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Doutrider"]


@pytest.mark.parametrize("header", ["²", "9" * 5_000, "Wed, 21 Oct 2026 07:28:00 GMT", "-1"])
async def test_a_time_to_wait_that_is_no_number_is_as_good_as_none(header: str) -> None:
    def busy() -> web.Response:
        return web.json_response({"message": "busy"}, status=503, headers={"Retry-After": header})

    async with a_cluster(busy, OBJECT) as (cluster, server):
        await cluster.apply(a_manifest(), manager="outrider")
    assert len(server.asked) == 2


async def test_an_answer_that_is_nested_beyond_reading_is_unavailable() -> None:
    async with a_cluster(raw_answer("[" * 100_000)) as (cluster, _):
        with pytest.raises(Unavailable, match="unreadable answer"):
            await cluster.get(SERVICES, "default", "m")


async def test_what_the_api_server_may_hold_is_read_however_deep_it_is_nested() -> None:
    levels = 9_900
    deep = '{"spec": ' + '{"a":' * levels + "1" + "}" * levels + "}"
    with room_for_deep_json():
        async with a_cluster(raw_answer(deep)) as (cluster, _):
            found = await cluster.get(SERVICES, "default", "m")
            assert found is not None
            assert list(found) == ["spec"]


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ({"major": "1", "minor": "36"}, (1, 36)),
        ({"major": "1", "minor": "33+"}, (1, 33)),
        ({"major": "", "minor": ""}, None),
        ({}, None),
    ],
    ids=str,
)
async def test_tells_the_release_of_the_api_server(told: dict[str, str], version: object) -> None:
    async with a_cluster(answer(told)) as (cluster, server):
        assert await cluster.version() == version
    assert server.asked == ["GET /version"]


KIND = Resource("example.com", "v1", "Thing", "things")


@pytest.mark.parametrize(
    ("answered", "known"),
    [
        (answer({"resources": [{"name": "others"}, {"name": "things"}]}), True),
        (answer({"resources": [{"name": "others"}]}), False),
        (answer({}, status=404), False),
    ],
    ids=["known", "another kind", "another group"],
)
async def test_tells_whether_an_add_on_is_there(answered: Answer, *, known: bool) -> None:
    async with a_cluster(answered) as (cluster, server):
        assert await cluster.serves(KIND) is known
    assert server.asked == ["GET /apis/example.com/v1"]
