"""The control API on a port of its own, and who comes to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.reasons import DegradedReason
from outrider.plan import Plan, PlanSettings
from outrider.plan.network_policy import ControlPeers
from outrider.plan.planner import plan
from tests.unit.plan.factories import CPU, KEYS, a_model, a_plan, engine_container, environment

OPERATOR = {"app.kubernetes.io/name": "outrider", "app.kubernetes.io/instance": "blue"}
GUARDED = PlanSettings(control_peers=ControlPeers("outrider-system", OPERATOR))
STOCK = {"method": "ngram", "tuning": {"mode": "Auto", "actuation": "Rollout"}}


def guarded(**spec: Any) -> Plan:
    return a_plan(a_model(**spec), settings=GUARDED)


def policy(result: Plan) -> Mapping[str, Any]:
    found = result.child("NetworkPolicy")
    assert found is not None, result.problems
    return found["spec"]  # type: ignore[return-value]


def ports(result: Plan) -> dict[str, int]:
    listed: Any = engine_container(result)["ports"]
    return {port["name"]: port["containerPort"] for port in listed}


def may_enter(
    rules: Mapping[str, Any], port: int, *, protocol: str = "TCP", operator: bool = False, serving: int = 8000
) -> bool:
    """What a network that knows ranges lets through. operator: the packet comes from one of its pods."""

    def covers(entry: Mapping[str, Any]) -> bool:
        first = serving if entry["port"] == "http" else entry["port"]
        return bool(entry["protocol"] == protocol and first <= port <= entry.get("endPort", first))

    return any(
        any(map(covers, rule["ports"])) and ("from" not in rule or operator) for rule in rules["ingress"]
    )


RULES = policy(guarded())


@given(port=st.integers(1, 65_535), operator=st.booleans())
def test_all_may_come_to_all_ports_but_the_control_port_and_there_the_operator_alone(
    port: int, operator: bool
) -> None:
    assert may_enter(RULES, port, operator=operator) == (operator or port != 8091)
    assert may_enter(RULES, port, protocol="UDP", operator=operator)


def test_clients_are_served_in_a_network_that_knows_no_ranges_of_ports() -> None:
    first_rule = policy(guarded())["ingress"][0]
    assert {"port": "http", "protocol": "TCP"} in first_rule["ports"]


def test_the_operator_is_known_by_its_namespace_and_its_labels_together() -> None:
    (peer,) = policy(guarded())["ingress"][1]["from"]
    assert peer["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "outrider-system"}}
    assert peer["podSelector"] == {"matchLabels": OPERATOR}


def test_the_policy_is_about_the_pods_of_its_model() -> None:
    rules = policy(guarded())
    assert rules["podSelector"] == {"matchLabels": {"outrider.dev/model": "qwen"}}
    assert rules["policyTypes"] == ["Ingress"]


def test_an_engine_is_told_its_control_port_and_the_pod_shows_it() -> None:
    result = guarded()
    assert environment(result)["OUTRIDER_CONTROL_PORT"] == "8091"
    assert ports(result) == {"http": 8000, "outrider-ctrl": 8091}


def test_the_service_leads_to_the_serving_port_alone() -> None:
    service: Any = guarded().child("Service")
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http"]


def test_an_engine_that_serves_on_the_control_port_has_its_control_on_the_next() -> None:
    result = guarded(engine={"port": 8091})
    assert ports(result) == {"http": 8091, "outrider-ctrl": 8092}
    assert may_enter(policy(result), 8091, serving=8091)
    assert not may_enter(policy(result), 8092, serving=8091)


def test_without_labels_of_the_operator_pods_are_those_of_before() -> None:
    before = a_plan(a_model())
    assert before.child("NetworkPolicy") is None
    assert ports(before) == {"http": 8000}
    assert "OUTRIDER_CONTROL_PORT" not in environment(before)


def test_a_stock_engine_has_no_control_port() -> None:
    result = guarded(speculation=STOCK)
    assert ports(result) == {"http": 8000}
    assert "OUTRIDER_CONTROL_PORT" not in environment(result)


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        (GUARDED, "ports", {"containerPort": 8091, "name": "mine"}),
        (GUARDED, "ports", {"containerPort": 9000, "name": "outrider-ctrl"}),
        (PlanSettings(), "ports", {"containerPort": 9000, "name": "outrider-ctrl"}),
        (GUARDED, "env", {"name": "OUTRIDER_CONTROL_PORT", "value": "9000"}),
        (PlanSettings(), "env", {"name": "OUTRIDER_CONTROL_PORT", "value": "9000"}),
    ],
)
def test_the_control_port_is_not_the_overlays_to_say(
    settings: PlanSettings, field: str, value: dict[str, object]
) -> None:
    overlay = {"spec": {"containers": [{"name": "engine", field: [value]}]}}
    result = a_plan(a_model(podTemplate=overlay), settings=settings)
    ((reason, message),) = result.problems
    assert reason is DegradedReason.INVALID_SPEC
    assert f"containers[engine].{field}[" in message


def test_a_download_is_the_same_whether_engines_are_guarded_or_not() -> None:
    model = a_model(uri="hf://a/b", cache={"size": "1Gi"}, resources=CPU)

    def job(settings: PlanSettings) -> object:
        return plan(model, settings=settings, keys=KEYS).child("Job")

    assert job(GUARDED) == job(PlanSettings())
    assert job(GUARDED) is not None
