"""The InferencePool of a model, and the labels of its pods."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.api.launch import Launch, LaunchOrder
from outrider.plan import Plan, PlanSettings, plan
from outrider.plan.names import POOL_LABEL, ROLE_LABEL
from tests.unit.plan.factories import KEYS, a_model, a_plan

PICKER = {"service": "qwen-epp"}
ENGINE_TYPES = {"inference.networking.k8s.io/engine-type": "vllm", "llm-d.ai/engine-type": "vllm"}


def pool(planned: Plan) -> dict[str, Any] | None:
    found: Any = planned.child("InferencePool")
    return found  # type: ignore[no-any-return]


def labels_of(workload: Any) -> dict[str, str]:
    return workload["spec"]["template"]["metadata"]["labels"]  # type: ignore[no-any-return]


def labels(planned: Plan) -> dict[str, str]:
    return labels_of(planned.child("Deployment"))


def pooled(*, engine: dict[str, Any] | None = None, **fields: Any) -> Plan:
    asked = {"endpointPicker": PICKER, **fields}
    return a_plan(a_model(engine=engine or {}, inferencePool=asked))


def with_canary(**fields: Any) -> list[dict[str, str]]:
    """The labels of the replicas and of the canary."""
    model = a_model(
        replicas=2,
        speculation={"tuning": {"canary": "Allow"}},
        inferencePool={"endpointPicker": PICKER, **fields},
    )
    order = LaunchOrder(canary=Launch(drafter=False))
    children = plan(model, settings=PlanSettings(), keys=KEYS, order=order).children
    return [labels_of(child) for child in children if child["kind"] == "Deployment"]


def test_a_model_that_asks_for_none_has_no_pool_and_no_label_of_one() -> None:
    planned = a_plan(a_model())
    assert pool(planned) is None
    assert not {POOL_LABEL, *ENGINE_TYPES} & labels(planned).keys()


def test_the_pool_selects_the_pods_at_the_engines_port_and_names_the_picker() -> None:
    planned = pooled(engine={"port": 8001})
    found = pool(planned)
    assert found is not None
    assert (found["apiVersion"], found["metadata"]["name"]) == ("inference.networking.k8s.io/v1", "qwen")
    assert found["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert found["spec"] == {
        "selector": {"matchLabels": {POOL_LABEL: "qwen"}},
        "targetPorts": [{"number": 8001}],
        "endpointPickerRef": {"name": "qwen-epp", "port": {"number": 9002}, "failureMode": "FailOpen"},
    }
    assert {POOL_LABEL: "qwen", **ENGINE_TYPES}.items() <= labels(planned).items()


def test_a_sidecar_can_have_the_port_of_the_pool() -> None:
    found = pool(pooled(port=9000, engine={"port": 8200}))
    assert found is not None
    assert found["spec"]["targetPorts"] == [{"number": 9000}]


@pytest.mark.parametrize(
    ("role", "side"), [("kv_producer", "prefill"), ("kv_consumer", "decode"), ("kv_both", None)]
)
def test_pods_say_their_side_of_a_kv_connector(role: str, side: str | None) -> None:
    args = {"kv-transfer-config": {"kv_connector": "P2pNcclConnector", "kv_role": role}}
    assert labels(pooled(engine={"args": args})).get("llm-d.ai/role") == side


def test_a_member_has_the_label_of_the_other_pool_and_none_of_its_own() -> None:
    planned = a_plan(a_model(name="prefill", inferencePool={"memberOf": "qwen"}))
    assert pool(planned) is None
    assert labels(planned)[POOL_LABEL] == "qwen"


def test_the_canary_is_in_the_pool_and_marked() -> None:
    replica, canary = with_canary()
    assert (replica[POOL_LABEL], canary[POOL_LABEL]) == ("qwen", "qwen")
    assert ROLE_LABEL not in replica
    assert canary[ROLE_LABEL] == "canary"


def test_the_canary_can_be_left_out() -> None:
    replica, canary = with_canary(canary="Exclude")
    assert replica[POOL_LABEL] == "qwen"
    assert POOL_LABEL not in canary


def test_workers_of_several_nodes_are_in_no_pool() -> None:
    model = a_model(
        parallelism={"tensor": 16, "nodes": 2},
        rollout={"onFailure": "Hold"},
        inferencePool={"endpointPicker": PICKER},
    )
    group: Any = a_plan(model).child("LeaderWorkerSet")
    templates = group["spec"]["leaderWorkerTemplate"]
    leader, worker = (templates[f"{kind}Template"]["metadata"]["labels"] for kind in ("leader", "worker"))
    assert leader[POOL_LABEL] == "qwen"
    assert POOL_LABEL not in worker
