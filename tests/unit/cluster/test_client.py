from __future__ import annotations

import json
import threading
from contextlib import suppress

import pytest
from aiohttp import web

from outrider.cluster.client import ClientLimits
from outrider.cluster.errors import (
    ClusterError,
    Conflict,
    Expired,
    NotFound,
    Refused,
    TooLarge,
    Unavailable,
)
from outrider.cluster.lease import NotLeader
from outrider.cluster.resources import DEPLOYMENTS, LEASES, PODS, SERVICES, JsonObject, Resource
from outrider.controller.process import room_for_deep_json
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
    assert server.asked == ["GET /api/v1/pods?labelSelector=a%3Db&limit=128"]
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
    assert server.asked == [
        "GET /apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Doutrider&limit=128"
    ]


@pytest.mark.parametrize("header", ["²", "9" * 5_000, "Wed, 21 Oct 2026 07:28:00 GMT", "-1"])
async def test_a_time_to_wait_that_is_no_number_is_as_good_as_none(header: str) -> None:
    def busy() -> web.Response:
        return web.json_response({"message": "busy"}, status=503, headers={"Retry-After": header})

    async with a_cluster(busy, OBJECT) as (cluster, server):
        await cluster.apply(a_manifest(), manager="outrider")
    assert len(server.asked) == 2


async def test_an_answer_that_is_nested_beyond_reading_is_unavailable() -> None:
    async with a_cluster(raw_answer("[" * 100_000)) as (cluster, _):
        with pytest.raises(Unavailable, match="cannot parse the answer"):
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


def page(*names: str, version: str = "7", token: str = "", filler: int = 0) -> Answer:
    items = [{"metadata": {"name": name}, "data": "x" * filler} for name in names]
    return answer({"metadata": {"resourceVersion": version, "continue": token}, "items": items})


def names(items: list[JsonObject]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


async def test_a_list_is_read_in_pages() -> None:
    pages = page("a", "b", token="t1"), page("c", version="7")
    async with a_cluster(*pages) as (cluster, server):
        items, version = await cluster.list_all(PODS, None)
    assert (names(items), version) == (["a", "b", "c"], 7)
    assert server.asked == ["GET /api/v1/pods?limit=128", "GET /api/v1/pods?limit=128&continue=t1"]


async def test_a_list_whose_pages_have_run_out_of_time_begins_anew() -> None:
    pages = page("a", token="t1"), refusal(410, "too old"), page("b", version="9")
    async with a_cluster(*pages) as (cluster, server):
        items, version = await cluster.list_all(PODS, None)
    assert (names(items), version) == (["b"], 9)
    assert len(server.asked) == 3


async def test_a_list_that_never_ends_in_time_is_given_up() -> None:
    async with a_cluster(refusal(410, "too old")) as (cluster, server):
        with pytest.raises(Expired, match="too old"):
            await cluster.list_all(PODS, None)
    assert len(server.asked) == 3


async def test_a_page_of_large_objects_is_asked_for_again_with_fewer() -> None:
    pages = (
        page("a", "b", filler=3_000),
        page("a", token="t1", filler=3_000),
        page("b", token="t2"),
        page("c", filler=3_000),
    )
    async with a_cluster(*pages, limits=ClientLimits(page_bytes=4_000)) as (cluster, server):
        items, _ = await cluster.list_all(PODS, None)
    assert names(items) == ["a", "b", "c"]
    assert [asked.partition("limit=")[2] for asked in server.asked] == [
        "128",
        "32",
        "32&continue=t1",
        "64&continue=t2",
    ]


async def test_one_object_beyond_what_is_read_is_an_error() -> None:
    async with a_cluster(
        page("a", filler=3_000), limits=ClientLimits(page_bytes=1_000, answer_bytes=2_000)
    ) as (cluster, server):
        with pytest.raises(TooLarge, match="larger than 2000 bytes"):
            await cluster.list_all(PODS, None)
    limits = [asked.partition("limit=")[2] for asked in server.asked]
    assert limits == ["128", "32", "8", "2", "1"]


async def test_one_large_object_is_read_though_a_page_of_its_size_is_not() -> None:
    async with a_cluster(page("a", filler=3_000), limits=ClientLimits(page_bytes=1_000)) as (cluster, _):
        items, _ = await cluster.list_all(PODS, None)
    assert names(items) == ["a"]


@pytest.mark.parametrize(("size", "read"), [(1_000, True), (1_001, False)])
async def test_an_answer_beyond_what_is_read_is_an_error(size: int, *, read: bool) -> None:
    text = json.dumps({"data": "x" * (size - len(json.dumps({"data": ""})))})
    async with a_cluster(raw_answer(text), limits=ClientLimits(answer_bytes=1_000)) as (cluster, server):
        if read:
            assert await cluster.get(SERVICES, "default", "m") is not None
        else:
            with pytest.raises(
                TooLarge, match="GET /api/v1/namespaces/default/services/m is larger than 1000"
            ):
                await cluster.get(SERVICES, "default", "m")
    assert len(server.asked) == 1


@pytest.mark.parametrize(("size", "requests"), [(2 * 2**20, 1), (2 * 2**20 + 1, 5)])
async def test_a_page_of_up_to_2_mib_is_read_at_once(size: int, requests: int) -> None:
    def text(filler: int) -> str:
        item = {"metadata": {"name": "a"}, "data": "x" * filler}
        return json.dumps({"metadata": {"resourceVersion": "7"}, "items": [item]})

    async with a_cluster(raw_answer(text(size - len(text(0))))) as (cluster, server):
        await cluster.list_all(PODS, None)
    assert len(server.asked) == requests


async def test_a_list_that_is_kept_as_it_came_has_a_limit() -> None:
    pages = page("a", token="t1", filler=3_000), page("b", filler=3_000)
    async with a_cluster(*pages, limits=ClientLimits(list_bytes=5_000)) as (cluster, _):
        with pytest.raises(TooLarge, match="the list of pods is larger than 5000 bytes"):
            await cluster.list_all(PODS, None)


async def test_of_a_list_only_what_is_kept_stays_however_long_it_is() -> None:
    pages = page("a", token="t1", filler=3_000), page("b", filler=3_000)

    def name_unless_a(raw: JsonObject) -> str | None:
        name = str(raw["metadata"]["name"])
        return name if name != "a" else None

    async with a_cluster(*pages, limits=ClientLimits(list_bytes=5_000)) as (cluster, _):
        assert await cluster.list_through(PODS, None, name_unless_a) == (["b"], 7)


async def test_a_list_is_parsed_in_another_thread_where_it_is_long() -> None:
    threads: set[int] = set()

    def keep(raw: JsonObject) -> JsonObject:
        threads.add(threading.get_ident())
        return raw

    async with a_cluster(page("a", filler=100_000)) as (cluster, _):
        await cluster.list_through(PODS, None, keep)
    assert threads
    assert threading.get_ident() not in threads


async def test_a_list_without_objects_may_say_null() -> None:
    async with a_cluster(answer({"metadata": {"resourceVersion": "7"}, "items": None})) as (cluster, _):
        assert await cluster.list_all(PODS, None) == ([], 7)


ODD = ["{}", "[]", "null", "1", '"text"', "true", '{"metadata": null}', '{"metadata": []}', "not JSON", ""]
ODD_LISTS = [
    *ODD,
    '{"metadata": {"resourceVersion": "many"}, "items": []}',
    '{"metadata": {"resourceVersion": "7"}}',
    '{"metadata": {"resourceVersion": "7"}, "items": {}}',
    '{"metadata": {"resourceVersion": "7"}, "items": [1]}',
    '{"metadata": {"resourceVersion": "7", "continue": 7}, "items": []}',
    '{"metadata": {"resourceVersion": {}}, "items": []}',
]


@pytest.mark.parametrize("text", ODD_LISTS)
async def test_what_is_no_list_is_an_error_of_the_cluster(text: str) -> None:
    async with a_cluster(raw_answer(text), limits=ClientLimits(attempts=1)) as (cluster, _):
        with pytest.raises(Unavailable, match="cannot parse the answer to GET /api/v1/pods"):
            await cluster.list_all(PODS, None)


@pytest.mark.parametrize("text", [*ODD, '{"resources": 7}', '{"resources": [7, null]}', '{"major": []}'])
async def test_every_method_raises_errors_of_the_cluster_only(text: str) -> None:
    async with a_cluster(raw_answer(text), limits=ClientLimits(attempts=1)) as (cluster, _):
        for asked in (
            cluster.get(SERVICES, "default", "m"),
            cluster.serves(KIND),
            cluster.version(),
            cluster.apply(a_manifest(), manager="outrider"),
            cluster.apply_status("default", "m", {}, manager="outrider"),
            cluster.annotate(SERVICES, "default", "m", {}),
            cluster.create(SERVICES, a_manifest()),
            cluster.delete(SERVICES, "default", "m", uid="u1"),
            cluster.get_through("default", "http:s:80", "api", {}),
            cluster.ask(KIND, {}),
        ):
            with suppress(ClusterError):
                await asked


@pytest.mark.parametrize("text", ["[]", "null", '{"message": []}', "[" * 100_000, "plain"])
async def test_a_failure_without_a_readable_message_is_told_by_its_status(text: str) -> None:
    def refused() -> web.Response:
        return web.Response(text=text, status=422)

    async with a_cluster(refused) as (cluster, _):
        with pytest.raises(Refused):
            await cluster.get(SERVICES, "default", "m")


async def test_answers_are_asked_for_unpacked() -> None:
    async with a_cluster(OBJECT) as (cluster, server):
        await cluster.get(SERVICES, "default", "m")
    assert server.headers[0]["Accept-Encoding"] == "identity"
