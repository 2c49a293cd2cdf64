"""How an order about the launch changes the pods."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.launch import ANNOTATION, Launch, LaunchOrder
from outrider.api.resource import SpeculativeModel
from outrider.plan import Plan, PlanSettings, Role, Serving, plan, revision
from outrider.plan.names import MODEL_LABEL, REVISION_LABEL, ROLE_LABEL
from outrider.runtimes.vllm.launch_table import stock_table
from outrider_protocol.schedule import Row, Schedule
from tests.unit.plan.factories import KEYS, a_model, engine_container, environment, flag, pod_spec

NO_DRAFTER = LaunchOrder(Launch(drafter=False))
CANARY = LaunchOrder(canary=Launch(drafter=False))
ALLOWED = {"structuralOff": "Allow", "canary": "Allow"}
ROLLOUT = {"actuation": "Rollout"}

schedules = st.builds(
    lambda edges, ks, last: Schedule(
        (*(Row(edge, k) for edge, k in zip(sorted(edges), ks, strict=False)), Row(None, last))
    ),
    st.lists(st.integers(1, 300), max_size=5, unique=True),
    st.lists(st.integers(0, 8), min_size=5, max_size=5),
    st.integers(0, 8),
)


def planned(
    model: SpeculativeModel, order: LaunchOrder | None = None, *, replicas: int = 0, canaries: int = 0
) -> Plan:
    """replicas, canaries: pods that serve."""
    serving = Serving(replicas, canaries)
    return plan(model, settings=PlanSettings(), keys=KEYS, order=order or LaunchOrder(), serving=serving)


def scale(result: Plan) -> dict[str, int]:
    """Replicas by name of the Deployment."""
    return {child["metadata"]["name"]: child["spec"]["replicas"] for child in deployments(result)}


def tuned(tuning: dict[str, str], **spec: Any) -> SpeculativeModel:
    return a_model(speculation={"tuning": tuning}, replicas=3, **spec)


def an_order(table: str) -> LaunchOrder:
    return LaunchOrder(Launch(schedule=Schedule.parse(table)))


def deployments(result: Plan) -> list[Any]:
    return [child for child in result.children if child["kind"] == "Deployment"]


def template_metadata(result: Plan) -> Any:
    return deployments(result)[0]["spec"]["template"]["metadata"]


def volumes(result: Plan) -> set[str]:
    named: Any = pod_spec(result)["volumes"]
    return {volume["name"] for volume in named}


def table_of(result: Plan) -> Any:
    return json.loads(flag(result, "--speculative-config") or "{}")["num_speculative_tokens_per_batch_size"]


def test_what_the_tuner_may_order_does_not_change_the_pods() -> None:
    assert planned(tuned(ALLOWED)).children == planned(a_model(replicas=3)).children


def test_without_drafter_the_engine_has_no_speculative_config_and_keeps_the_plugin() -> None:
    result = planned(tuned(ALLOWED), NO_DRAFTER)

    assert flag(result, "--speculative-config") is None
    assert environment(result)["VLLM_PLUGINS"] == "outrider,outrider_api"
    assert "schedule" in volumes(result)


def test_without_drafter_the_engine_gets_the_arguments_of_method_none() -> None:
    plain = planned(a_model(method="none", replicas=3))

    assert engine_container(planned(tuned(ALLOWED), NO_DRAFTER)) == engine_container(plain)


def test_a_pod_without_drafter_says_so() -> None:
    annotations = template_metadata(planned(tuned(ALLOWED), NO_DRAFTER))["annotations"]

    assert Launch.of_pod(annotations) == Launch(drafter=False)


def test_a_relaunch_is_a_new_revision_of_the_same_deployment() -> None:
    before, after = planned(tuned(ALLOWED)), planned(tuned(ALLOWED), NO_DRAFTER)

    assert before.revision != after.revision
    assert [child["metadata"] for child in before.children] == [child["metadata"] for child in after.children]


def test_a_stock_engine_sees_nothing_of_outrider() -> None:
    result = planned(tuned(ROLLOUT))

    assert engine_container(result)["command"] == ["python3", "-m", "vllm.entrypoints.openai.api_server"]
    assert environment(result)["VLLM_PLUGINS"] == ""
    assert not [name for name in environment(result) if name.startswith("OUTRIDER_")]
    assert not {"schedule", "control"} & volumes(result)


def test_a_stock_engine_cannot_be_drained_so_its_pod_waits_before_it_ends() -> None:
    """Longer than endpoints take to forget it, and than vLLM keeps an idle connection open."""
    found = planned(tuned(ROLLOUT))
    engine: Any = engine_container(found)

    assert engine["lifecycle"]["preStop"] == {"sleep": {"seconds": 15}}
    assert engine["readinessProbe"]["httpGet"]["path"] == "/health"
    assert pod_spec(found)["terminationGracePeriodSeconds"] == 15 + 50 + 10


def test_a_canary_is_drained_as_its_replicas_are() -> None:
    replica, canary = (
        child["spec"]["template"]["spec"]["containers"][0]
        for child in deployments(planned(tuned(ALLOWED), CANARY, replicas=2))
    )
    assert canary["lifecycle"] == replica["lifecycle"]
    assert "exec" in canary["lifecycle"]["preStop"]


def test_a_stock_engine_is_launched_with_the_static_table() -> None:
    result = planned(tuned(ROLLOUT))

    assert table_of(result) == [[1, 8, 3], [9, 32, 1], [33, 65536, 0]]
    assert template_metadata(result)["annotations"][ANNOTATION] == "8:3,32:1,*:0"


def test_a_stock_engine_is_launched_with_the_ordered_table() -> None:
    result = planned(tuned(ROLLOUT), an_order("12:5,*:1"))

    assert table_of(result) == [[1, 12, 5], [13, 65536, 1]]
    assert template_metadata(result)["annotations"][ANNOTATION] == "12:5,*:1"


def test_under_rollout_a_new_static_table_is_a_new_revision() -> None:
    changed = a_model(
        speculation={"tuning": ROLLOUT, "schedule": [{"numSpeculativeTokens": 1}]},
        replicas=3,
    )

    assert planned(changed).revision != planned(tuned(ROLLOUT)).revision


def test_an_order_of_the_static_table_restarts_nothing() -> None:
    assert planned(tuned(ROLLOUT), an_order("8:3,32:1,*:0")) == planned(tuned(ROLLOUT))


def test_a_stock_engine_can_be_launched_without_drafter() -> None:
    result = planned(tuned({**ROLLOUT, "structuralOff": "Allow"}), NO_DRAFTER)

    assert flag(result, "--speculative-config") is None
    assert environment(result)["VLLM_PLUGINS"] == ""


def of_ranks(**speculation: Any) -> SpeculativeModel:
    return a_model(parallelism={"data": 2}, speculation={"tuning": ROLLOUT, **speculation})


@pytest.mark.parametrize(
    ("order", "k"),
    [
        (LaunchOrder(), 2),
        (an_order("*:5"), 5),
        (an_order("8:5,*:0"), 2),
        (an_order("*:4"), 2),
    ],
    ids=["none", "one K", "a table", "no candidate"],
)
def test_data_parallel_ranks_are_launched_with_one_k_and_no_table(order: LaunchOrder, k: int) -> None:
    result = planned(of_ranks(candidates=[0, 2, 5]), order)

    told = json.loads(flag(result, "--speculative-config") or "")
    assert (told["num_speculative_tokens"], flag(result, "--data-parallel-size")) == (k, "2")
    assert "num_speculative_tokens_per_batch_size" not in told
    assert template_metadata(result)["annotations"][ANNOTATION] == f"*:{k}"
    assert "VLLM_USE_V2_MODEL_RUNNER" not in environment(result)


def test_data_parallel_ranks_with_a_k_of_nothing_are_launched_without_drafter() -> None:
    result = planned(of_ranks(), an_order("*:0"))

    assert flag(result, "--speculative-config") is None
    assert template_metadata(result)["annotations"][ANNOTATION] == "*:0"


def test_data_parallel_ranks_begin_with_the_k_of_the_schedule() -> None:
    result = planned(of_ranks(schedule=[{"numSpeculativeTokens": 1}]))

    assert json.loads(flag(result, "--speculative-config") or "")["num_speculative_tokens"] == 1


@given(schedule=schedules, size=st.integers(1, 256))
def test_a_stock_engine_drafts_what_the_table_says_at_every_batch_size(schedule: Schedule, size: int) -> None:
    found = [k for first, last, k in stock_table(schedule, 256) if first <= size <= last]

    assert found == [schedule.k_at(size)]


@given(schedule=schedules, size=st.integers(1, 2048))
def test_where_vllm_chooses_the_largest_batch_the_table_of_a_stock_engine_has_no_end(
    schedule: Schedule, size: int
) -> None:
    found = [k for first, last, k in stock_table(schedule, None) if first <= size <= last]

    assert found == [schedule.k_at(size)]


def test_a_canary_starts_besides_all_replicas() -> None:
    assert scale(planned(tuned(ALLOWED), CANARY, replicas=3)) == {"qwen": 3, "qwen-canary": 1}


def test_a_canary_that_serves_takes_the_place_of_one_replica() -> None:
    assert scale(planned(tuned(ALLOWED), CANARY, replicas=3, canaries=1)) == {"qwen": 2, "qwen-canary": 1}


def test_without_room_for_a_surge_a_canary_takes_the_place_of_one_replica_at_once() -> None:
    model = tuned(ALLOWED, rollout={"maxSurge": 0, "maxUnavailable": 1})

    assert scale(planned(model, CANARY, replicas=3)) == {"qwen": 2, "qwen-canary": 1}
    assert scale(planned(model, replicas=2, canaries=1)) == {"qwen": 3}


def test_a_canary_stays_until_its_replica_serves_again() -> None:
    assert scale(planned(tuned(ALLOWED), replicas=2, canaries=1)) == {"qwen": 3, "qwen-canary": 1}
    assert scale(planned(tuned(ALLOWED), replicas=3, canaries=1)) == {"qwen": 3}


def test_a_canary_that_never_served_goes_at_once() -> None:
    assert scale(planned(tuned(ALLOWED), replicas=2)) == {"qwen": 3}


def test_a_canary_gets_the_same_traffic() -> None:
    result = planned(tuned(ALLOWED), CANARY)
    service: Any = result.child("Service")
    wanted = service["spec"]["selector"]
    labels = deployments(result)[1]["spec"]["template"]["metadata"]["labels"]

    assert wanted.items() <= labels.items()


def test_a_canary_does_not_restart_the_other_replicas() -> None:
    with_canary, without = planned(tuned(ALLOWED), CANARY), planned(tuned(ALLOWED))

    assert with_canary.revision == without.revision
    (before,), (after, _) = deployments(without), deployments(with_canary)
    assert after["spec"]["template"] == before["spec"]["template"]
    assert after["spec"]["selector"] == before["spec"]["selector"] == {"matchLabels": {MODEL_LABEL: "qwen"}}


def test_a_canary_selects_its_own_pods_only() -> None:
    main, canary = deployments(planned(tuned(ALLOWED), CANARY))
    wanted = canary["spec"]["selector"]["matchLabels"]

    assert wanted.items() <= canary["spec"]["template"]["metadata"]["labels"].items()
    assert not wanted.items() <= main["spec"]["template"]["metadata"]["labels"].items()
    assert ROLE_LABEL in wanted


def test_a_canary_runs_without_drafter() -> None:
    container = deployments(planned(tuned(ALLOWED), CANARY))[1]["spec"]["template"]["spec"]["containers"][0]

    assert "speculative-config" not in " ".join(container["args"])


def test_the_plan_knows_the_revisions_of_both() -> None:
    result = planned(tuned(ALLOWED), CANARY)
    found = {d["spec"]["template"]["metadata"]["labels"][REVISION_LABEL] for d in deployments(result)}

    assert found == result.revisions
    assert len(found) == 2


@pytest.mark.parametrize(
    ("tuning", "order"),
    [
        (ALLOWED, LaunchOrder()),
        (ALLOWED, NO_DRAFTER),
        (ROLLOUT, LaunchOrder()),
        (ROLLOUT, an_order("12:5,*:1")),
    ],
)
def test_a_pod_is_recognised_by_what_it_tells_of_its_launch(
    tuning: dict[str, str], order: LaunchOrder
) -> None:
    model = tuned(tuning)
    launch = Launch.of_pod(template_metadata(planned(model, order))["annotations"])

    assert revision(model, launch, Role.REPLICA, settings=PlanSettings()) == planned(model, order).revision


def test_a_canary_is_recognised_by_its_role() -> None:
    model = tuned(ALLOWED)
    found = revision(model, Launch(drafter=False), Role.CANARY, settings=PlanSettings())

    assert found == planned(model, CANARY).canary_revision


def test_an_overlay_cannot_hide_how_a_pod_was_launched() -> None:
    overlay = {"metadata": {"annotations": {ANNOTATION: "*:9"}}}
    result = planned(tuned(ALLOWED, podTemplate=overlay), NO_DRAFTER)

    assert template_metadata(result)["annotations"][ANNOTATION] == "no-drafter"


def test_an_overlay_cannot_pretend_a_launch() -> None:
    overlay = {"metadata": {"annotations": {ANNOTATION: "*:9"}}}

    assert ANNOTATION not in template_metadata(planned(tuned(ALLOWED, podTemplate=overlay)))["annotations"]


@pytest.mark.parametrize("method", ["suffix", "none"])
def test_a_stock_engine_whose_k_is_fixed_has_no_table(method: str) -> None:
    result = planned(a_model(method=method, speculation={"tuning": {**ROLLOUT, "mode": "Off"}}))
    assert "num_speculative_tokens_per_batch_size" not in (flag(result, "--speculative-config") or "")
    assert ANNOTATION not in template_metadata(result)["annotations"]
    assert environment(result)["VLLM_PLUGINS"] == ""
