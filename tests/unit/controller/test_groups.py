"""Replicas of several nodes: a LeaderWorkerSet is applied, watched by its pods, and taken away."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from outrider.cluster.errors import Unavailable, from_status
from outrider.cluster.resources import DEPLOYMENTS, LEADER_WORKER_SETS, MODELS
from outrider.controller.reconcile.groups import TAKEN_UP_WITHIN
from outrider.controller.store import Cache
from outrider.controller.watch import WATCHED
from outrider.plan.names import GROUP_LABEL, MODEL_LABEL, REVISION_LABEL, WORKERS_LABEL, group_set
from tests.unit.controller.factories import TWO_NODES, a_condition, a_raw_model, a_raw_pod, ago
from tests.unit.controller.place import KEY, Place

PATH = LEADER_WORKER_SETS.path("default", group_set("m"))
FORBIDDEN = 'leaderworkersets.leaderworkerset.x-k8s.io "m-group" is forbidden: User "o" cannot get resource'


class GroupPlace(Place):
    """A model on two nodes, in a cluster that has LeaderWorkerSet."""

    @property
    def groups(self) -> dict[str, Any]:
        return self.cluster.objects[PATH]

    def of_the_groups(self, name: str, *, worker: bool = False, **what: Any) -> None:
        template = self.groups["spec"]["leaderWorkerTemplate"]["leaderTemplate"]
        raw = a_raw_pod(name, revision=template["metadata"]["labels"][REVISION_LABEL], **what)
        raw["metadata"]["labels"][GROUP_LABEL] = group_set("m")
        if worker:
            raw["metadata"]["labels"][WORKERS_LABEL] = raw["metadata"]["labels"].pop(MODEL_LABEL)
        self.store.pods.put(raw)

    def groups_are(self, age: float, *conditions: Any) -> None:
        self.groups["metadata"]["creationTimestamp"] = ago(age)
        self.groups["status"] = {"conditions": list(conditions)}

    def all_is_deleted(self) -> None:
        """The model, and with it everything that it owns."""
        self.cluster.objects.clear()
        for resource in WATCHED:
            cache: Cache[Any] = self.store.cache(resource)
            cache.replace([], 10_000, within=None)

    def is_made_again(self, uid: str, *, version: int) -> None:
        """Another model has the name."""
        raw = a_raw_model(uid=uid, version=version, **TWO_NODES)
        self.cluster.objects[MODELS.path("default", "m")] = raw
        self.store.models.put(raw)


async def a_place(**spec: Any) -> GroupPlace:
    place = GroupPlace(a_raw_model(**{**TWO_NODES, **spec}))
    place.cluster.add_ons.add(LEADER_WORKER_SETS)
    await place.passes()
    return place


async def test_a_cluster_without_the_kind_is_told_with_a_remedy_and_nothing_is_made() -> None:
    place = Place(a_raw_model(**TWO_NODES))
    await place.passes()
    assert place.conditions["Degraded"] == "LeaderWorkerSetMissing"
    assert "Install LeaderWorkerSet" in place.trouble
    assert DEPLOYMENTS.path("default", "m") not in place.cluster.objects


async def test_the_kind_is_looked_for_again_within_a_minute() -> None:
    place = Place(a_raw_model(**TWO_NODES))
    again = await place.reconciler.reconcile(KEY)
    assert again is not None
    assert again < 60
    place.cluster.add_ons.add(LEADER_WORKER_SETS)
    await place.passes()
    assert "Degraded" not in place.conditions
    assert PATH in place.cluster.objects


async def test_a_missing_right_is_told_with_the_charts_value() -> None:
    place = Place(a_raw_model(**TWO_NODES))
    place.cluster.add_ons.add(LEADER_WORKER_SETS)
    place.cluster.fails = from_status(403, FORBIDDEN, retry_after=None)
    await place.passes()
    assert place.conditions["Degraded"] == "LeaderWorkerSetMissing"
    assert "leaderWorkerSets.enabled: true" in place.trouble


async def test_a_controller_that_does_not_answer_is_told_within_a_minute() -> None:
    place = await a_place()
    place.groups_are(TAKEN_UP_WITHIN.total_seconds() + 1)
    await place.passes()
    assert place.conditions["Degraded"] == "LeaderWorkerSetMissing"
    assert "No controller reacted to" in place.trouble
    assert TAKEN_UP_WITHIN.total_seconds() < 60


async def test_a_model_serves_once_its_leader_does() -> None:
    place = await a_place()
    place.of_the_groups("m-group-0", ready=True)
    place.of_the_groups("m-group-0-1", worker=True, ready=True)
    await place.passes()
    assert place.conditions["Ready"] == "Serving"
    assert place.conditions["Progressing"] == "Complete"


async def test_workers_count_as_no_replicas() -> None:
    place = await a_place()
    place.of_the_groups("m-group-0", ready=True)
    place.of_the_groups("m-group-0-1", worker=True, ready=True)
    await place.passes()
    status = place.cluster.status["m"]
    assert (status["replicas"], status["readyReplicas"]) == (1, 1)
    assert status["selector"] == f"{MODEL_LABEL}=m"


async def test_what_keeps_a_worker_from_running_is_told() -> None:
    place = await a_place()
    place.of_the_groups("m-group-0")
    place.of_the_groups("m-group-0-1", worker=True, waiting=("ErrImagePull", "no engine:9"))
    await place.passes()
    assert place.conditions["Degraded"] == "ImagePullFailed"
    assert "m-group-0-1" in place.trouble


async def test_why_a_group_ended_is_told_although_its_pods_are_gone() -> None:
    place = await a_place()
    place.of_the_groups("m-group-0-1", worker=True, leaving=True, restarts=1, ended=(1, "CUDA error"))
    await place.passes()
    place.store.pods.replace([], 10_000, within=None)
    await place.passes()
    assert place.conditions["Degraded"] == "EngineCrashing"
    assert "CUDA error" in place.trouble


async def test_what_ended_before_is_forgotten_once_the_group_serves() -> None:
    place = await a_place()
    place.of_the_groups("m-group-0-1", worker=True, leaving=True, restarts=1, ended=(1, "CUDA error"))
    await place.passes()
    place.store.pods.replace([], 10_000, within=None)
    place.of_the_groups("m-group-0", ready=True, version=10_001)
    await place.passes()
    assert "Degraded" not in place.conditions

    place.store.models.put(a_raw_model(version=10_000, **TWO_NODES, replicas=2))
    await place.passes()
    assert "Degraded" not in place.conditions


@pytest.mark.parametrize("reconciled_between", [True, False])
async def test_a_model_has_no_end_of_a_deleted_one_of_its_name(*, reconciled_between: bool) -> None:
    place = await a_place()
    place.of_the_groups("m-group-0-1", worker=True, leaving=True, restarts=1, ended=(1, "CUDA error"))
    await place.passes()
    assert place.conditions["Degraded"] == "EngineCrashing"

    place.all_is_deleted()
    if reconciled_between:
        await place.passes()
    place.is_made_again("uid-new", version=10_001)
    await place.passes()
    assert "Degraded" not in place.conditions


async def test_of_a_deleted_model_no_end_is_kept() -> None:
    place = await a_place()
    place.of_the_groups("m-group-0-1", worker=True, leaving=True, restarts=1, ended=(1, "CUDA error"))
    await place.passes()

    place.all_is_deleted()
    await place.passes()
    assert place.reconciler._groups._ends == {}


async def test_a_group_that_is_scaled_down_ended_for_no_trouble() -> None:
    place = await a_place()
    place.of_the_groups("m-group-0", leaving=True, ended=(0, ""))
    await place.passes()
    assert "Degraded" not in place.conditions


@pytest.mark.parametrize(("age", "told"), [(599, False), (601, True)])
async def test_a_rollout_without_progress_is_told_at_its_deadline(age: float, *, told: bool) -> None:
    place = await a_place()
    place.groups_are(5000, a_condition("Progressing", age=age))
    await place.passes()
    assert (place.conditions.get("Degraded") == "ProgressDeadlineExceeded") is told


async def test_a_group_that_is_made_again_and_again_is_no_progress() -> None:
    place = await a_place()
    place.groups_are(5000, a_condition("Progressing", age=601))
    place.of_the_groups("m-group-0", uid="the tenth")
    await place.passes()
    assert place.conditions["Degraded"] == "ProgressDeadlineExceeded"


async def test_one_node_again_makes_a_deployment_and_takes_the_groups_away() -> None:
    place = await a_place()
    place.store.models.put(a_raw_model(version=10_000))
    await place.passes()
    assert PATH not in place.cluster.objects
    assert DEPLOYMENTS.path("default", "m") in place.cluster.objects


async def test_groups_that_are_still_there_let_no_deployment_be_made_beside() -> None:
    place = await a_place()
    place.store.models.put(a_raw_model(version=10_000))
    with patch.object(place.cluster, "delete", side_effect=Unavailable("etcd is away")):
        await place.failing_passes(Unavailable("etcd is away"), times=1)
    assert DEPLOYMENTS.path("default", "m") not in place.cluster.objects


async def test_several_nodes_take_the_deployment_away() -> None:
    place = GroupPlace(a_raw_model())
    place.cluster.add_ons.add(LEADER_WORKER_SETS)
    await place.passes()
    place.store.models.put(a_raw_model(version=10_000, **TWO_NODES))
    await place.passes()
    assert PATH in place.cluster.objects
    assert DEPLOYMENTS.path("default", "m") not in place.cluster.objects


async def test_groups_of_somebody_else_are_left_alone() -> None:
    place = GroupPlace(a_raw_model(**TWO_NODES))
    place.cluster.add_ons.add(LEADER_WORKER_SETS)
    metadata = {"name": group_set("m"), "namespace": "default", "uid": "u", "resourceVersion": "1"}
    foreign = {
        "apiVersion": LEADER_WORKER_SETS.api_version,
        "kind": LEADER_WORKER_SETS.kind,
        "metadata": metadata,
    }
    place.cluster.objects[PATH] = foreign
    await place.passes()
    assert place.conditions["Degraded"] == "NameTaken"
    assert place.cluster.objects[PATH] == foreign
