"""From the tuner's order about the launch to the Deployments, and back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from outrider.api.launch import Launch, LaunchOrder
from outrider.cluster.errors import NameTaken
from outrider.cluster.ownership import Owner
from outrider.cluster.resources import CONFIG_MAPS, DEPLOYMENTS, MODELS
from outrider.controller.launch_orders import read_order
from outrider.controller.reconcile.reconciler import Reconciler
from outrider.controller.store import Store
from outrider.controller.stored import Key
from outrider.controller.tune.api_server import ClusterApiServer
from outrider.plan import PlanSettings
from outrider.plan.names import REVISION_LABEL
from tests.unit.controller.factories import NOW, a_launch_order, a_raw_model, a_raw_pod
from tests.unit.controller.kept_server import KeptServer, a_kept_cluster
from tests.unit.tuning_loop.factories import a_model

NO_DRAFTER = LaunchOrder(Launch(drafter=False))
CANARY = LaunchOrder(canary=Launch(drafter=False))
KEY = Key("default", "m")
OWNER = Owner("default", "m", "uid-of-m")


@dataclass
class Place:
    """A model in a cluster, with the orders and the reconciler over one store."""

    server: KeptServer
    store: Store
    api_server: ClusterApiServer
    reconciler: Reconciler
    queued: list[Key] = field(default_factory=list)

    async def order(self, order: LaunchOrder) -> None:
        await self.api_server.order(a_model(), order)

    async def reconcile(self) -> None:
        await self.reconciler.reconcile(KEY)

    async def carry_out(self, order: LaunchOrder) -> None:
        await self.order(order)
        await self.reconcile()

    def deployments(self) -> dict[str, int]:
        """Replicas by name."""
        prefix = DEPLOYMENTS.path("default") + "/"
        found = self.server.objects.items()
        return {
            path.removeprefix(prefix): d["spec"]["replicas"] for path, d in found if path.startswith(prefix)
        }

    def template(self, name: str = "m") -> Any:
        found = self.server.find(DEPLOYMENTS, name)
        assert found is not None
        return found["spec"]["template"]

    def drafts(self) -> bool:
        return "speculative-config" in " ".join(self.template()["spec"]["containers"][0]["args"])

    def conditions(self) -> dict[str, str]:
        found = self.server.find(MODELS, "m")
        assert found is not None
        return {entry["type"]: entry["reason"] for entry in found["status"]["conditions"]}

    def has_pod(self, name: str, *, of: str = "m", ready: bool = True, gone: bool = False) -> None:
        """A pod as the Deployment's template makes it. gone: no watch has reported its end yet."""
        metadata = self.template(of)["metadata"]
        raw = a_raw_pod(name, ready=ready, revision=metadata["labels"][REVISION_LABEL])
        raw["metadata"]["labels"] = metadata["labels"]
        raw["metadata"]["annotations"] = metadata["annotations"]
        self.store.pods.put(raw)
        if not gone:
            self.server.put_pod(raw)


@asynccontextmanager
async def a_place(replicas: int = 2, **tuning: str) -> AsyncIterator[Place]:
    allowed = tuning or {"structuralOff": "Allow", "canary": "Allow"}
    speculation = {"method": "ngram", "numSpeculativeTokens": 3, "tuning": allowed}
    raw = a_raw_model(uid="uid-of-m", speculation=speculation, replicas=replicas)
    async with a_kept_cluster() as (cluster, server):
        store = Store()
        store.models.put(raw)
        server.put_model(raw)
        queued: list[Key] = []
        place = Place(
            server,
            store,
            ClusterApiServer(cluster, store, on_order=queued.append),
            Reconciler(cluster, store, settings=PlanSettings(), now=lambda: NOW),
            queued,
        )
        await place.reconcile()
        yield place


def a_deployment_of(model: str, *, name: str | None = None) -> dict[str, Any]:
    """Another model's Deployment."""
    owner = {"apiVersion": "outrider.dev/v1alpha1", "kind": "SpeculativeModel", "name": model, "uid": "u-2"}
    metadata = {"name": name or model, "namespace": "default", "uid": "d-2", "resourceVersion": "9999"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**metadata, "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"replicas": 7},
    }


async def test_an_order_is_kept_as_a_child_of_the_model() -> None:
    async with a_place() as place:
        await place.order(NO_DRAFTER)
        stored = place.server.find(CONFIG_MAPS, "m-launch")

        assert stored is not None
        assert stored["data"] == {"launch": "no-drafter", "canary": "false"}
        assert [owner["uid"] for owner in stored["metadata"]["ownerReferences"]] == ["uid-of-m"]
        assert read_order(place.store, OWNER) == NO_DRAFTER


async def test_an_order_wakes_reconcile() -> None:
    async with a_place() as place:
        await place.order(NO_DRAFTER)

        assert place.queued == [KEY]


async def test_the_same_order_is_written_once() -> None:
    async with a_place() as place:
        await place.order(NO_DRAFTER)
        writes = len(place.server.writes)
        await place.order(NO_DRAFTER)

        assert (len(place.server.writes), place.queued) == (writes, [KEY])


async def test_where_nothing_was_ordered_the_default_is_not_written() -> None:
    async with a_place() as place:
        await place.order(LaunchOrder())

        assert place.server.find(CONFIG_MAPS, "m-launch") is None


async def test_an_order_is_not_written_over_somebody_elses_object() -> None:
    async with a_place() as place:
        foreign = a_launch_order(owner=None)
        place.server.objects[CONFIG_MAPS.path("default", "m-launch")] = foreign
        with pytest.raises(NameTaken):
            await place.order(NO_DRAFTER)

        assert place.queued == []


async def test_an_unreadable_order_is_replaced_by_the_next() -> None:
    async with a_place() as place:
        place.store.children[CONFIG_MAPS].put(a_launch_order("fast", owner="uid-of-m"))
        await place.order(LaunchOrder())

        assert read_order(place.store, OWNER) == LaunchOrder()


async def test_reconcile_carries_an_order_out_and_leaves_it_alone() -> None:
    async with a_place() as place:
        assert place.drafts()
        await place.carry_out(NO_DRAFTER)

        assert not place.drafts()
        assert place.server.find(CONFIG_MAPS, "m-launch") is not None


async def test_the_default_order_brings_the_drafter_back() -> None:
    async with a_place() as place:
        before = place.template()
        await place.carry_out(NO_DRAFTER)
        await place.carry_out(LaunchOrder())

        assert place.template() == before


async def test_deleting_the_order_brings_the_launch_of_the_spec_back() -> None:
    async with a_place() as place:
        await place.carry_out(NO_DRAFTER)
        stored = place.store.children[CONFIG_MAPS].get(Key("default", "m-launch"))
        assert stored is not None
        place.store.children[CONFIG_MAPS].drop(stored.metadata)
        await place.reconcile()

        assert place.drafts()


async def test_an_order_that_the_spec_does_not_allow_changes_nothing() -> None:
    async with a_place(mode="Auto") as place:
        await place.carry_out(NO_DRAFTER)

        assert place.drafts()


async def test_an_unreadable_order_is_told_and_the_spec_holds() -> None:
    async with a_place() as place:
        place.store.children[CONFIG_MAPS].put(a_launch_order("fast", owner="uid-of-m"))
        place.has_pod("m-1")
        place.has_pod("m-2")
        await place.reconcile()

        assert place.drafts()
        assert place.conditions() == {
            "Ready": "Serving",
            "Progressing": "Complete",
            "Degraded": "LaunchOrderUnreadable",
        }
        assert "ConfigMap default/m-launch" in json.dumps(place.server.find(MODELS, "m"))


async def test_a_model_stays_ready_while_it_is_relaunched() -> None:
    async with a_place() as place:
        place.has_pod("m-1")
        place.has_pod("m-2")
        await place.carry_out(NO_DRAFTER)

        assert place.conditions() == {"Ready": "Serving", "Progressing": "RollingOut"}


async def test_a_canary_takes_the_place_of_a_replica_once_it_serves() -> None:
    async with a_place(replicas=3) as place:
        await place.carry_out(CANARY)
        before = place.deployments()
        place.has_pod("m-canary-1", of="m-canary")
        await place.reconcile()

        assert before == {"m": 3, "m-canary": 1}
        assert place.deployments() == {"m": 2, "m-canary": 1}


async def test_a_canary_counts_as_a_replica() -> None:
    async with a_place() as place:
        await place.carry_out(CANARY)
        place.has_pod("m-1")
        place.has_pod("m-canary-1", of="m-canary")
        await place.reconcile()

        assert place.conditions() == {"Ready": "Serving", "Progressing": "Complete"}


async def test_a_model_whose_name_the_canary_would_need_keeps_it_and_the_replicas_go_on() -> None:
    async with a_place() as place:
        place.has_pod("m-1")
        place.has_pod("m-2")
        place.server.objects[DEPLOYMENTS.path("default", "m-canary")] = a_deployment_of("m-canary")
        await place.carry_out(CANARY)

        assert place.deployments() == {"m": 2, "m-canary": 7}
        assert place.conditions() == {"Ready": "Serving", "Progressing": "Complete", "Degraded": "NameTaken"}
        told = json.dumps(place.server.find(MODELS, "m"))
        assert "Outrider starts no canary: Deployment default/m-canary exists" in told
        assert "SpeculativeModel m-canary. Rename one of the two." in told


async def test_a_model_whose_own_name_is_taken_is_blocked_while_a_canary_is_ordered_too() -> None:
    async with a_place() as place:
        await place.order(CANARY)
        place.store.children[DEPLOYMENTS].put(a_deployment_of("other", name="m"))
        await place.reconcile()

        assert place.conditions()["Ready"] == "Blocked"


async def test_without_the_order_the_canary_goes_when_all_replicas_serve() -> None:
    async with a_place() as place:
        await place.carry_out(CANARY)
        place.has_pod("m-1")
        place.has_pod("m-canary-1", of="m-canary")
        await place.reconcile()
        await place.carry_out(LaunchOrder())
        while_the_replica_starts = place.deployments()
        place.has_pod("m-2")
        await place.reconcile()

        assert while_the_replica_starts == {"m": 2, "m-canary": 1}
        assert place.deployments() == {"m": 2}


async def test_a_canary_stays_while_the_end_of_a_replica_is_not_reported() -> None:
    async with a_place() as place:
        await place.carry_out(CANARY)
        place.has_pod("m-1")
        place.has_pod("m-2", gone=True)
        place.has_pod("m-canary-1", of="m-canary")
        await place.reconcile()
        await place.carry_out(LaunchOrder())
        assert place.deployments() == {"m": 2, "m-canary": 1}

        place.has_pod("m-2")
        await place.reconcile()
        assert place.deployments() == {"m": 2}


async def test_a_canary_of_an_older_spec_goes_at_once() -> None:
    async with a_place() as place:
        await place.carry_out(CANARY)
        place.has_pod("m-canary-1", of="m-canary")
        changed = {"method": "ngram", "numSpeculativeTokens": 3, "tuning": {"canary": "Allow"}}
        place.store.models.put(
            a_raw_model(
                uid="uid-of-m",
                version=10_000,
                speculation=changed,
                replicas=2,
                engine={"image": "engine:2"},
            )
        )
        await place.carry_out(LaunchOrder())

        assert place.deployments() == {"m": 2}
