"""Rollouts that do not end: the good revision returns, and a full cluster is rolled in place."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.api.rollout import Rollout
from outrider.cluster.errors import Unavailable
from outrider.cluster.resources import BUDGETS, CONFIG_MAPS, REPLICA_SETS
from outrider.controller.process import room_for_deep_json
from outrider.controller.reconcile.rollouts import no_room, table_of
from outrider.controller.store_fleet import StoreFleet
from outrider.plan.rollout import ANNOTATION
from outrider.runtimes.engine_launch import SCHEDULE_FILE
from tests.unit.controller.factories import (
    NOW,
    a_condition,
    a_launch_order,
    a_pod,
)
from tests.unit.controller.place import Deployments, Place, a_failed_rollout, a_model_that_serves

GPU = {"nvidia.com/gpu": "1"}
TUNED: dict[str, Any] = {"method": "ngram", "numSpeculativeTokens": 3}


async def test_a_rollout_that_fails_returns_to_the_last_good_revision() -> None:
    deployments = await a_model_that_serves()
    good = deployments.revision
    deployments.change(engine={"image": "engine:2"})
    await deployments.place.passes()
    await deployments.gives_up()

    assert (deployments.image, deployments.revision) == ("engine:1", good)
    labels = deployments.raw["spec"]["template"]["metadata"]["labels"]
    assert "pod-template-hash" not in labels


async def test_it_is_told_with_the_cause_and_what_to_do() -> None:
    deployments = await a_failed_rollout()
    place = deployments.place

    assert place.conditions["Ready"] == "RolledBack"
    assert place.conditions["Degraded"] == "RolledBack"
    assert "EngineCrashing: Pod" in place.trouble
    assert "boom" in place.trouble
    assert "To try again, change the spec" in place.trouble
    assert [event["reason"] for event in place.cluster.events].count("Degraded") == 1


async def test_engines_that_were_only_slow_are_told_of_the_deadline() -> None:
    deployments = await a_model_that_serves()
    deployments.change(engine={"image": "engine:2"})
    await deployments.place.passes()
    await deployments.gives_up(waiting=("ContainerCreating", ""))

    assert "ProgressDeadlineExceeded" in deployments.place.trouble
    assert "raise rollout.progressDeadline" in deployments.place.trouble


async def test_it_does_not_fight_with_the_passes_that_follow() -> None:
    deployments = await a_failed_rollout()
    before = deployments.raw["spec"]
    await deployments.complete()
    version = deployments.raw["metadata"]["resourceVersion"]
    await deployments.place.passes(3)

    assert deployments.raw["spec"] == before
    assert deployments.raw["metadata"]["resourceVersion"] == version
    assert deployments.place.conditions["Degraded"] == "RolledBack"


async def test_it_survives_a_restart_of_the_operator() -> None:
    deployments = await a_failed_rollout()
    await deployments.complete()
    another = Place(deployments.place.raw)
    another.store, another.cluster = deployments.place.store, deployments.place.cluster
    another.reconciler = type(another.reconciler)(
        another.cluster,  # type: ignore[arg-type]
        another.store,
        settings=deployments.place.reconciler._settings,
        now=lambda: NOW,
    )
    await another.passes()

    assert deployments.image == "engine:1"
    assert another.conditions["Degraded"] == "RolledBack"


async def test_a_crash_before_the_write_changes_nothing_and_the_next_pass_returns() -> None:
    deployments = await a_model_that_serves()
    deployments.change(engine={"image": "engine:2"})
    await deployments.place.passes()
    deployments.place.cluster.fails = Unavailable("etcd is away")
    with pytest.raises(Unavailable):
        await deployments.gives_up()
    assert deployments.image == "engine:2"
    deployments.place.cluster.fails = None
    await deployments.place.passes()

    assert deployments.image == "engine:1"


async def test_more_replicas_are_more_of_the_good_revision() -> None:
    deployments = await a_failed_rollout()
    deployments.change(engine={"image": "engine:2"}, replicas=5)
    await deployments.place.passes()

    assert (deployments.image, deployments.raw["spec"]["replicas"]) == ("engine:1", 5)


async def test_another_spec_is_rolled_out() -> None:
    deployments = await a_failed_rollout()
    deployments.change(engine={"image": "engine:3"})
    await deployments.place.passes()

    assert deployments.image == "engine:3"
    assert "Degraded" not in deployments.place.conditions


async def test_hold_tries_the_same_spec_again_and_leaves_it() -> None:
    deployments = await a_failed_rollout()
    deployments.change(engine={"image": "engine:2"}, rollout={"onFailure": "Hold"})
    await deployments.place.passes()
    await deployments.gives_up()

    assert deployments.image == "engine:2"
    assert deployments.place.conditions["Degraded"] == "EngineCrashing"


async def test_a_spec_that_serves_in_the_end_is_the_next_good_one() -> None:
    deployments = await a_failed_rollout()
    deployments.change(engine={"image": "engine:3"})
    await deployments.place.passes()
    await deployments.complete()
    deployments.change(engine={"image": "engine:4"})
    await deployments.place.passes()
    await deployments.gives_up()

    assert deployments.image == "engine:3"


async def test_the_first_rollout_of_a_model_has_nothing_to_return_to() -> None:
    deployments = Deployments()
    await deployments.place.passes()
    await deployments.gives_up()

    assert deployments.image == "engine:1"
    assert deployments.place.conditions["Degraded"] == "EngineCrashing"


async def test_a_revision_that_is_gone_is_not_returned_to() -> None:
    deployments = await a_model_that_serves()
    deployments.change(engine={"image": "engine:2"})
    await deployments.place.passes()
    deployments.forgets_replica_sets()
    await deployments.gives_up()

    assert deployments.image == "engine:2"
    assert deployments.place.conditions["Degraded"] == "EngineCrashing"


async def test_of_two_replica_sets_of_the_revision_the_one_with_pods_returns() -> None:
    deployments = await a_model_that_serves()
    deployments.change(engine={"image": "engine:2"})
    await deployments.place.passes()
    objects = deployments.place.cluster.objects
    (path,) = [path for path in objects if path.startswith(REPLICA_SETS.path("default"))]
    template = objects[path]["spec"]["template"]
    restarted = {**template, "metadata": {**template["metadata"], "annotations": {"restarted": "at noon"}}}
    objects[f"{path}-2"] = {**objects[path], "spec": {"template": restarted, "replicas": 2}}
    await deployments.gives_up()

    assert deployments.raw["spec"]["template"]["metadata"]["annotations"] == {"restarted": "at noon"}


async def test_a_replica_set_of_another_deployment_is_none_of_its_revisions() -> None:
    deployments = await a_model_that_serves()
    deployments.change(engine={"image": "engine:2"})
    await deployments.place.passes()
    for path, raw in deployments.place.cluster.objects.items():
        if path.startswith(REPLICA_SETS.path("default")):
            raw["metadata"]["ownerReferences"] = [{"uid": "somebody", "controller": True}]
    await deployments.gives_up()

    assert deployments.image == "engine:2"


async def test_a_memory_that_somebody_deleted_is_made_again_from_what_serves() -> None:
    deployments = await a_model_that_serves()
    del deployments.raw["metadata"]["annotations"][ANNOTATION]
    await deployments.complete()

    assert deployments.memory.good is not None
    assert deployments.memory.good.revision == deployments.revision


async def test_pods_that_return_begin_with_the_table_of_their_own_spec() -> None:
    deployments = await a_model_that_serves(speculation=TUNED)
    tables = deployments.place.cluster.objects[CONFIG_MAPS.path("default", "m-schedule")]["data"][
        SCHEDULE_FILE
    ]
    deployments.change(speculation={**TUNED, "numSpeculativeTokens": 9}, engine={"image": "engine:2"})
    await deployments.place.passes()
    await deployments.gives_up()

    after = deployments.place.cluster.objects[CONFIG_MAPS.path("default", "m-schedule")]["data"][
        SCHEDULE_FILE
    ]
    assert after == tables


async def test_the_tuner_keeps_pods_that_return_at_their_own_table() -> None:
    deployments = await a_model_that_serves(speculation=TUNED)
    deployments.change(speculation={**TUNED, "numSpeculativeTokens": 9}, engine={"image": "engine:2"})
    await deployments.place.passes()
    await deployments.gives_up()

    (tuned,) = StoreFleet(deployments.place.store).tuned_models()
    assert str(tuned.returned_table) == "8:2,32:1,*:0"
    assert str(tuned.static) != str(tuned.returned_table)


async def test_a_relaunch_that_the_tuner_ordered_waits_for_the_spec() -> None:
    allowed = {**TUNED, "tuning": {"structuralOff": "Allow"}}
    deployments = await a_model_that_serves(speculation=allowed)
    deployments.change(speculation=allowed, engine={"image": "engine:2"})
    await deployments.place.passes()
    await deployments.gives_up()
    deployments.place.store.children[CONFIG_MAPS].put(a_launch_order("no-drafter", version=90_000))
    await deployments.place.passes()

    assert deployments.image == "engine:1"


async def test_a_relaunch_that_does_not_end_is_the_tuners_to_take_back() -> None:
    allowed = {**TUNED, "tuning": {"structuralOff": "Allow"}}
    deployments = await a_model_that_serves(speculation=allowed)
    good = deployments.revision
    deployments.place.store.children[CONFIG_MAPS].put(a_launch_order("no-drafter", version=90_000))
    await deployments.place.passes()
    assert deployments.revision != good
    await deployments.gives_up()

    assert deployments.revision != good
    assert deployments.memory.failed is None


async def test_passes_that_fail_tell_of_the_pods_that_returned() -> None:
    deployments = await a_failed_rollout()
    await deployments.complete()
    deployments.change(engine={"image": "engine:2"}, replicas=3)
    await deployments.place.fails(Unavailable("etcd is away"), times=3)

    assert deployments.place.conditions["Ready"] == "RolledBack"
    assert deployments.place.conditions["Degraded"] == "ReconcileFailed"


def full(age: float, what: str = "nvidia.com/gpu") -> tuple[Any, ...]:
    """The scheduler's words for the last seconds."""
    said = f"0/2 nodes are available: 2 Insufficient {what}. preemption: 0/2 nodes are available."
    return (a_condition("PodScheduled", "False", reason="Unschedulable", message=said, age=age),)


async def test_a_full_cluster_is_rolled_in_place_after_a_while_and_says_why() -> None:
    deployments = await a_model_that_serves()
    deployments.change(engine={"image": "engine:2"})
    await deployments.place.passes()
    await deployments.starts(conditions=full(299))
    assert deployments.surge == (1, 0)
    await deployments.starts(conditions=full(300))

    assert deployments.surge == (0, 1)
    assert deployments.place.conditions["Progressing"] == "RollingOutInPlace"
    assert "RollingOutInPlace" in [event["reason"] for event in deployments.place.cluster.events]


async def test_the_next_rollout_looks_for_room_again() -> None:
    deployments = await a_model_that_serves()
    deployments.change(engine={"image": "engine:2"})
    await deployments.place.passes()
    await deployments.starts(conditions=full(300))
    await deployments.starts()
    assert deployments.surge == (0, 1)
    await deployments.complete()

    assert deployments.surge == (1, 0)
    assert deployments.place.conditions["Progressing"] == "Complete"


OLD = (a_pod("a", ready=True, requests=GPU), a_pod("b", ready=True, requests=GPU))
NEW = a_pod("c", requests=GPU, conditions=full(300))
SURGE = Rollout()


def test_a_pod_that_would_fit_in_the_place_of_one_has_no_room() -> None:
    assert no_room([NEW], OLD, 2, SURGE, NOW)


@pytest.mark.parametrize(
    ("new", "old", "rollout"),
    [
        pytest.param(NEW, OLD[:1], SURGE, id="the last pod that serves"),
        pytest.param(a_pod("c", requests=GPU, conditions=full(299)), OLD, SURGE, id="patience"),
        pytest.param(
            a_pod("c", requests={"nvidia.com/gpu": "2"}, conditions=full(300)), OLD, SURGE, id="a larger pod"
        ),
        pytest.param(a_pod("c", requests=GPU, conditions=full(300, "taint")), (), SURGE, id="nobody serves"),
        pytest.param(
            a_pod(
                "c",
                requests=GPU,
                conditions=(
                    a_condition("PodScheduled", "False", reason="Unschedulable", message="a taint", age=300),
                ),
            ),
            OLD,
            SURGE,
            id="another cause",
        ),
        pytest.param(a_pod("c", requests=GPU, ready=True), OLD, SURGE, id="a pod that has a node"),
        pytest.param(NEW, OLD, Rollout(max_unavailable="50%"), id="pods that may be missing anyway"),
    ],
)
def test_no_serving_pod_gives_way(new: Any, old: Any, rollout: Rollout) -> None:
    assert not no_room([new], old, 2, rollout, NOW)


def test_a_share_that_comes_to_no_pod_lets_none_be_missing() -> None:
    assert no_room([NEW], OLD, 2, Rollout(max_unavailable="25%"), NOW)


async def test_a_model_that_is_scaled_down_to_one_pod_loses_its_disruption_budget() -> None:
    deployments = await a_model_that_serves()
    path = BUDGETS.path("default", "m-engines")
    assert path in deployments.place.cluster.objects
    deployments.change(replicas=1)
    await deployments.place.passes()

    assert path not in deployments.place.cluster.objects


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "[1,", '{"a": 1}', "[" + "{}," * 100_000 + "{}]", '"x"', "null"]
)
def test_a_table_that_cannot_be_read_is_none(text: str) -> None:
    with room_for_deep_json():
        assert table_of({SCHEDULE_FILE: text}) == ""


def test_a_config_map_without_a_table_has_none() -> None:
    assert table_of({}) == ""
    assert table_of({SCHEDULE_FILE: '[{"numSpeculativeTokens": 3}]'}) == "*:3"
