"""Models of other shards that a model of this one names."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.api.resource import SpeculativeModel
from outrider.cluster.client import ClusterClient
from outrider.cluster.objects import Metadata
from outrider.cluster.resources import MODELS
from outrider.cluster.shards import Shard, shard_of
from outrider.controller.neighbours import forget_neighbours, read_neighbours
from outrider.controller.store import Store
from outrider.controller.stored import Key
from tests.unit.controller.cluster_server import a_cluster_server, a_connection
from tests.unit.controller.factories import a_raw_model, a_raw_pod

OWN = Shard(shard_of("default", "m", 2), 2)
THEIRS = next(f"p-{n}" for n in range(99) if not OWN.owns("default", f"p-{n}"))
OURS = next(f"p-{n}" for n in range(99) if OWN.owns("default", f"p-{n}"))


def named(raw: dict[str, Any], name: str) -> dict[str, Any]:
    return {**raw, "metadata": {**raw["metadata"], "name": name}}


@pytest.mark.parametrize(("name", "reads"), [(THEIRS, True), (OURS, False)])
async def test_a_named_model_is_read_if_another_shard_has_it(name: str, reads: bool) -> None:
    raw = a_raw_model()
    raw["spec"]["inferencePool"] = {"memberOf": name}
    async with a_cluster_server() as server, a_connection(server) as api:
        server.add(MODELS, named(a_raw_model(), name))
        store = Store(shard=lambda: OWN)

        await read_neighbours(ClusterClient(api), store, SpeculativeModel.of_stored(raw))
        found = store.model(Key("default", name))

        assert (found is not None, bool(server.asked)) == (reads, reads)


async def test_a_model_of_another_shard_is_kept_as_long_as_one_of_this_names_it() -> None:
    store = Store(shard=lambda: OWN)
    theirs = [name for n in range(99) if not OWN.owns("default", name := f"p-{n}")][:20]
    ours = [name for n in range(99) if OWN.owns("default", name := f"q-{n}")][:20]
    async with a_cluster_server() as server, a_connection(server) as api:
        for name in theirs:
            server.add(MODELS, named(a_raw_model(), name))
        for name, other in zip(ours, theirs, strict=True):
            raw = a_raw_model(name, inferencePool={"memberOf": other})
            store.models.put(raw)
            await read_neighbours(ClusterClient(api), store, SpeculativeModel.of_stored(raw))
    assert store.neighbours.keys() == {Key("default", name) for name in theirs}

    for name in ours[1:]:
        store.models.drop(Metadata(name=name, namespace="default", uid="uid-m"))
        forget_neighbours(store)
    assert store.neighbours.keys() == {Key("default", theirs[0])}


async def test_a_model_that_is_no_longer_named_is_dropped_when_another_is_read() -> None:
    store = Store(shard=lambda: OWN)
    theirs = [name for n in range(99) if not OWN.owns("default", name := f"p-{n}")][:20]
    async with a_cluster_server() as server, a_connection(server) as api:
        for version, other in enumerate(theirs):
            server.add(MODELS, named(a_raw_model(), other))
            raw = a_raw_model("m", version=version + 1, inferencePool={"memberOf": other})
            store.models.put(raw)
            await read_neighbours(ClusterClient(api), store, SpeculativeModel.of_stored(raw))

    assert store.neighbours.keys() == {Key("default", theirs[-1])}


@pytest.mark.parametrize(("name", "kept"), [(THEIRS, False), (OURS, True)])
def test_objects_of_other_shards_are_no_news(name: str, kept: bool) -> None:
    store = Store(shard=lambda: OWN)

    assert (store.models.news(named(a_raw_model(), name)) is not None) is kept
    assert store.models.get(Key("default", name)) is None


def test_pods_that_a_target_names_are_read_whatever_their_shard() -> None:
    store = Store(shard=lambda: OWN)

    assert store.pods.read(named(a_raw_pod(), THEIRS)) is not None
