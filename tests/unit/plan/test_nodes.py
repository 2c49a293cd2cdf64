"""A replica that spreads over several nodes: a group of a LeaderWorkerSet."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.api.reasons import DegradedReason
from outrider.plan import Plan
from outrider.plan.names import MODEL_LABEL, REVISION_LABEL
from tests.unit.plan.factories import CPU, Json, a_model, a_plan


def planned(**spec: Any) -> Plan:
    wanted = {"parallelism": {"tensor": 4, "nodes": 2}, "rollout": {"onFailure": "Hold"}, **spec}
    return a_plan(a_model(**wanted))


def groups(result: Plan) -> Any:
    found = result.child("LeaderWorkerSet")
    assert found is not None, result.problems
    return found["spec"]


def templates(result: Plan) -> tuple[Any, Any]:
    """Of leader and worker."""
    both = groups(result)["leaderWorkerTemplate"]
    return both["leaderTemplate"], both["workerTemplate"]


def engine(template: Any) -> Any:
    return template["spec"]["containers"][0]


def child(result: Plan, kind: str) -> Any:
    found = result.child(kind)
    assert found is not None
    return found


def test_one_node_stays_a_deployment() -> None:
    result = planned(parallelism={"tensor": 4})
    assert result.child("Deployment") is not None
    assert result.child("LeaderWorkerSet") is None
    assert not [word for word in engine_args(result) if word.startswith("--nnodes")]


def engine_args(result: Plan) -> list[str]:
    template = child(result, "Deployment")["spec"]["template"]
    words: list[str] = engine(template)["args"]
    return words


def test_every_replica_is_a_group_of_as_many_pods_as_nodes() -> None:
    result = planned(replicas=3)
    assert result.child("Deployment") is None
    assert groups(result)["replicas"] == 3
    assert groups(result)["leaderWorkerTemplate"]["size"] == 2


def test_the_controllers_own_service_does_not_take_the_models_name() -> None:
    assert (
        child(planned(), "LeaderWorkerSet")["metadata"]["name"]
        != child(planned(), "Service")["metadata"]["name"]
    )


def test_the_gpus_are_shared_out() -> None:
    for template in templates(planned(parallelism={"tensor": 16, "nodes": 2})):
        assert engine(template)["resources"]["limits"] == {"nvidia.com/gpu": "8"}


def test_the_service_finds_leaders_and_no_workers() -> None:
    result = planned()
    selector = child(result, "Service")["spec"]["selector"]
    leader, worker = (template["metadata"]["labels"] for template in templates(result))
    assert selector.items() <= leader.items()
    assert not selector.items() <= worker.items()
    assert MODEL_LABEL not in worker


def test_both_are_told_where_they_meet_and_who_they_are() -> None:
    meeting = {
        "--distributed-executor-backend=mp",
        "--nnodes=2",
        "--node-rank=$(LWS_WORKER_INDEX)",
        "--master-addr=$(LWS_LEADER_ADDRESS)",
        "--master-port=29501",
    }
    leader, worker = (set(engine(template)["args"]) for template in templates(planned()))
    assert meeting <= leader
    assert worker - leader == {"--headless"}


def test_the_meeting_place_gives_way_to_the_engines_port() -> None:
    leader, _ = templates(planned(engine={"port": 29501}))
    assert "--master-port=29502" in engine(leader)["args"]


def test_nobody_asks_a_worker_for_anything() -> None:
    _, worker = templates(planned())
    asked = {"ports", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle"}
    assert asked.isdisjoint(engine(worker))
    assert worker["metadata"]["annotations"] == {}


def test_a_worker_learns_nothing_of_who_may_command_the_engine() -> None:
    _, worker = templates(planned())
    assert "OUTRIDER_POD_UID" not in [each["name"] for each in engine(worker)["env"]]


def test_each_pod_tells_the_others_its_own_address() -> None:
    for template in templates(planned()):
        found = {each["name"]: each.get("valueFrom") for each in engine(template)["env"]}
        assert found["VLLM_HOST_IP"]["fieldRef"]["fieldPath"] == "status.podIP"


def test_an_overlay_changes_leaders_and_workers_alike() -> None:
    overlay = {"spec": {"containers": [{"name": "engine", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}]}}
    for template in templates(planned(podTemplate=overlay)):
        assert {"name": "NCCL_DEBUG", "value": "INFO"} in engine(template)["env"]


def test_a_change_of_either_is_another_revision_of_both() -> None:
    before, after = planned(), planned(resources=CPU)
    assert before.revision != after.revision
    for template in templates(after):
        assert template["metadata"]["labels"][REVISION_LABEL] == after.revision


def test_the_number_of_groups_changes_no_revision() -> None:
    assert planned(replicas=1).revision == planned(replicas=2).revision


def test_a_rollout_goes_as_the_spec_says() -> None:
    rollout = {"onFailure": "Hold", "maxSurge": 0, "maxUnavailable": 1}
    update = groups(planned(rollout=rollout))["rolloutStrategy"]["rollingUpdateConfiguration"]
    assert update == {"maxSurge": 0, "maxUnavailable": 1}


def test_a_budget_counts_every_pod_since_a_group_is_lost_with_any() -> None:
    result = planned(replicas=2)
    name = child(result, "LeaderWorkerSet")["metadata"]["name"]
    selector: Json = child(result, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"]
    assert selector == {"leaderworkerset.sigs.k8s.io/name": name}


@pytest.mark.parametrize("flag", ["distributed-executor-backend", "distributed_executor_backend"])
def test_another_way_to_spread_is_refused(flag: str) -> None:
    (problem,) = planned(engine={"args": {flag: "ray"}}).problems
    assert problem[0] is DegradedReason.INVALID_SPEC
    assert "several nodes work together by mp" in problem[1]


def test_live_tuning_stays_with_the_leader() -> None:
    leader, worker = templates(planned())
    assert "OUTRIDER_POD_UID" in [each["name"] for each in engine(leader)["env"]]
    assert (
        engine(leader)["command"] == engine(worker)["command"] == ["python3", "-m", "outrider_engine.launch"]
    )
