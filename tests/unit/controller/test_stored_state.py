"""The tuner's state lies in a ConfigMap beside the model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from outrider.cluster.errors import Conflict, NameTaken, Refused
from outrider.cluster.ownership import Owner
from outrider.cluster.resources import CONFIG_MAPS, DEPLOYMENTS
from outrider.controller.children import Children
from outrider.controller.fleet import TunedModel
from outrider.controller.store import Store
from outrider.controller.tune.api_server import ClusterApiServer, StateDeleted
from outrider.plan.names import MODEL_LABEL, labels
from tests.unit.cluster.factories import Answer, ScriptedServer, a_cluster, answer, refusal
from tests.unit.tuning_loop.factories import a_model

MODEL: TunedModel = a_model()


def a_config_map(
    name: str = "m-tuner",
    *,
    text: str = "kept",
    owner: str | None = MODEL.uid,
    manager: str = "outrider-tuner",
    version: int = 1,
    uid: str | None = None,
) -> dict[str, Any]:
    controller = {"kind": "SpeculativeModel", "name": "m", "uid": owner, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-of-{name}",
            "resourceVersion": str(version),
            "labels": labels("m"),
            "ownerReferences": [controller] if owner else [],
            "managedFields": [{"manager": manager, "operation": "Apply"}],
        },
        "data": {"state.json": text},
    }


async def read(found: Answer) -> str | None:
    async with a_cluster(found) as (cluster, _):
        return await ClusterApiServer(cluster, Store()).read_state(MODEL)


async def test_without_a_config_map_there_is_nothing() -> None:
    assert await read(refusal(404)) is None


async def test_what_was_kept_is_read() -> None:
    assert await read(answer(a_config_map(text="{}"))) == "{}"


async def test_what_was_kept_is_read_although_its_owner_was_stripped() -> None:
    assert await read(answer(a_config_map(owner=None))) == "kept"


async def test_what_a_deleted_model_of_the_same_name_left_is_not_read() -> None:
    assert await read(answer(a_config_map(owner="uid-of-another"))) is None


async def test_a_config_map_of_somebody_else_is_not_read() -> None:
    with pytest.raises(NameTaken, match="does not belong to this model"):
        await read(answer(a_config_map(owner=None, manager="kubectl")))


async def test_a_config_map_without_data_is_an_empty_text() -> None:
    assert await read(answer({**a_config_map(), "data": None})) == ""


async def test_it_is_written_as_a_child_of_the_model_by_the_tuner() -> None:
    async with a_cluster(refusal(404), answer(a_config_map())) as (cluster, server):
        await ClusterApiServer(cluster, Store()).write_state(MODEL, "new")
    asked, body = server.asked[-1], json.loads(server.bodies[-1])
    assert asked.startswith("PATCH /api/v1/namespaces/default/configmaps/m-tuner?fieldManager=outrider-tuner")
    assert body["data"] == {"state.json": "new"}
    assert body["metadata"]["labels"][MODEL_LABEL] == "m"
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (MODEL.uid, True)


async def test_the_same_text_is_written_once() -> None:
    async with a_cluster(refusal(404), lambda: written(server.bodies[-1])) as (cluster, server):
        states = ClusterApiServer(cluster, Store())
        await states.write_state(MODEL, "same")
        asked = len(server.asked)
        await states.write_state(MODEL, "same")
    assert len(server.asked) == asked


@asynccontextmanager
async def states_once_written() -> AsyncIterator[tuple[ClusterApiServer, Store, ScriptedServer]]:
    """Once; from then on the API server answers what a test puts there."""
    store = Store()
    async with a_cluster(refusal(404), lambda: written(server.bodies[-1])) as (cluster, server):
        states = ClusterApiServer(cluster, store)
        await states.write_state(MODEL, "kept")
        server.asked.clear()
        yield states, store, server


def seen_no_more(store: Store) -> None:
    """What the watch delivers, of a deletion or of a lost label."""
    (stored,) = store.children[CONFIG_MAPS]
    store.children[CONFIG_MAPS].drop(stored.metadata)


def verbs(server: ScriptedServer) -> list[str]:
    return [line.split()[0] for line in server.asked]


async def test_what_somebody_deleted_is_not_written_again_but_said() -> None:
    async with states_once_written() as (states, store, server):
        seen_no_more(store)
        server.answers = [refusal(404)]
        with pytest.raises(StateDeleted):
            await states.write_state(MODEL, "kept")
    assert verbs(server) == ["GET"]


async def test_a_deletion_is_said_once_and_then_the_next_text_is_stored() -> None:
    async with states_once_written() as (states, store, server):
        seen_no_more(store)
        server.answers = [refusal(404), refusal(404), lambda: written(server.bodies[-1])]
        with pytest.raises(StateDeleted):
            await states.write_state(MODEL, "kept")
        await states.write_state(MODEL, "new")
    assert json.loads(server.bodies[-1])["data"] == {"state.json": "new"}


async def test_one_that_lost_its_label_was_not_deleted_and_gets_it_back() -> None:
    async with states_once_written() as (states, store, server):
        seen_no_more(store)
        unlabelled = answer(a_config_map())
        server.answers = [unlabelled, unlabelled, lambda: written(server.bodies[-1])]
        await states.write_state(MODEL, "new")
    assert verbs(server)[-1] == "PATCH"


async def test_another_object_in_its_place_is_a_deletion() -> None:
    async with states_once_written() as (states, store, server):
        seen_no_more(store)
        store.children[CONFIG_MAPS].put(a_config_map(uid="another", version=9))
        server.answers = [answer(a_config_map(uid="another"))]
        with pytest.raises(StateDeleted):
            await states.write_state(MODEL, "new")


async def test_one_that_was_deleted_just_before_a_write_made_it_again_is_a_deletion() -> None:
    async with states_once_written() as (states, _, server):
        server.answers = [lambda: written(server.bodies[-1], uid="another", version="9")]
        with pytest.raises(StateDeleted):
            await states.write_state(MODEL, "new")


async def test_what_was_read_and_deleted_later_is_a_deletion() -> None:
    async with a_cluster(answer(a_config_map()), refusal(404)) as (cluster, _):
        states = ClusterApiServer(cluster, Store())
        await states.read_state(MODEL)
        with pytest.raises(StateDeleted):
            await states.write_state(MODEL, "new")


async def test_of_a_model_that_was_made_again_nothing_was_deleted() -> None:
    again = replace(MODEL, uid="uid-of-another-m")
    async with states_once_written() as (states, store, server):
        seen_no_more(store)
        server.answers = [refusal(404), lambda: written(server.bodies[-1])]
        await states.write_state(again, "new")
    assert verbs(server)[-1] == "PATCH"


async def test_a_write_that_fails_says_nothing_of_a_deletion() -> None:
    async with states_once_written() as (states, _, server):
        server.answers = [refusal(403)]
        with pytest.raises(Refused):
            await states.write_state(MODEL, "new")


async def test_a_config_map_of_somebody_else_is_never_written() -> None:
    foreign = answer(a_config_map(owner=None, manager="kubectl"))
    async with a_cluster(foreign) as (cluster, server):
        with pytest.raises(NameTaken):
            await ClusterApiServer(cluster, Store()).write_state(MODEL, "new")
    assert [line.split()[0] for line in server.asked] == ["GET"]


async def test_what_a_deleted_model_left_is_waited_for() -> None:
    async with a_cluster(answer(a_config_map(owner="uid-of-another"))) as (cluster, server):
        with pytest.raises(Conflict):
            await ClusterApiServer(cluster, Store()).write_state(MODEL, "new")
    assert [line.split()[0] for line in server.asked] == ["GET"]


async def test_reconcile_prunes_deployments_and_nothing_else() -> None:
    store = Store()
    store.children[CONFIG_MAPS].put(a_config_map())
    store.children[CONFIG_MAPS].put(a_config_map("m-old"))
    store.children[DEPLOYMENTS].put(
        {**a_config_map("m-canary"), "apiVersion": "apps/v1", "kind": "Deployment"}
    )
    async with a_cluster(answer({})) as (cluster, server):
        await Children(cluster, store).prune(Owner("default", "m", MODEL.uid), [])
    assert server.asked == ["DELETE /apis/apps/v1/namespaces/default/deployments/m-canary"]


def written(body: str, *, uid: str = "uid-of-m-tuner", version: str = "7") -> Any:
    """The API server's answer to an apply."""
    sent = json.loads(body)
    sent["metadata"] |= {"uid": uid, "resourceVersion": version}
    return answer(sent)()
