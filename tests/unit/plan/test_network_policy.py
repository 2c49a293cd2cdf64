"""The control API on a port of its own, and who comes to it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.reasons import DegradedReason
from outrider.controller.settings import Settings
from outrider.plan import Plan, PlanSettings
from outrider.plan.names import GROUP_LABEL, download_labels, labels, worker_labels
from outrider.plan.network_peers import ControlPeers, read_peers
from outrider.plan.planner import plan
from tests.unit.plan.factories import CPU, KEYS, a_model, a_plan, engine_container, environment

ROOT = Path(__file__).parents[3]
OPERATOR = {"app.kubernetes.io/name": "outrider", "app.kubernetes.io/instance": "blue"}
GUARDED = PlanSettings(control_peers=ControlPeers("outrider-system", OPERATOR))
STOCK = {"method": "ngram", "tuning": {"mode": "Auto", "actuation": "Rollout"}}


def guarded(**spec: Any) -> Plan:
    return a_plan(a_model(**spec), settings=GUARDED)


def policies(result: Plan) -> list[Mapping[str, Any]]:
    assert not result.problems
    return [child for child in result.children if child["kind"] == "NetworkPolicy"]


def ports(result: Plan) -> dict[str, int]:
    listed: Any = engine_container(result)["ports"]
    return {port["name"]: port["containerPort"] for port in listed}


@dataclass(frozen=True)
class Member:
    """A pod, as a network knows it."""

    namespace: str
    labels: Mapping[str, str]


THE_OPERATOR = Member("outrider-system", OPERATOR)
BESIDE_THE_OPERATOR = Member("outrider-system", {"app": "other"})
LOOKS_LIKE_THE_OPERATOR = Member("llm", OPERATOR)
NEIGHBOUR = Member("llm", {"app": "client"})
STRANGER = Member("elsewhere", {"app": "client"})
PROMETHEUS = Member("monitoring", {"app": "prometheus"})
ENGINE = Member("llm", labels("qwen"))
DOWNLOAD = Member("llm", download_labels("qwen"))
LEADER = Member("llm", {**labels("qwen"), GROUP_LABEL: "qwen-group"})
WORKER = Member("llm", {**worker_labels("qwen"), GROUP_LABEL: "qwen-group"})
OTHER_GROUP = Member("llm", {**worker_labels("llama"), GROUP_LABEL: "llama-group"})
EVERYBODY = (
    THE_OPERATOR,
    BESIDE_THE_OPERATOR,
    LOOKS_LIKE_THE_OPERATOR,
    NEIGHBOUR,
    STRANGER,
    PROMETHEUS,
    ENGINE,
    OTHER_GROUP,
)


def selects(selector: Mapping[str, Any], found: Mapping[str, str]) -> bool:
    assert selector.keys() <= {"matchLabels"}
    wanted: Mapping[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= found.items()


def matches(peer: Mapping[str, Any], source: Member, home: str) -> bool:
    """home: the namespace of the policy."""
    assert peer.keys() & {"namespaceSelector", "podSelector"}
    in_namespace = source.namespace == home
    if "namespaceSelector" in peer:
        of_namespace = {"kubernetes.io/metadata.name": source.namespace}
        in_namespace = selects(peer["namespaceSelector"], of_namespace)
    return in_namespace and selects(peer.get("podSelector", {}), source.labels)


def reaches(
    result: Plan, source: Member, target: Member, port: int, *, protocol: str = "TCP", serving: int = 8000
) -> bool:
    """Whether the plan's policies let a packet in where another policy denies everything."""

    def covers(rule: Mapping[str, Any]) -> bool:
        return "ports" not in rule or any(
            (serving if entry["port"] == "http" else entry["port"]) == port and entry["protocol"] == protocol
            for entry in rule["ports"]
        )

    def allows(rule: Mapping[str, Any]) -> bool:
        # A rule without peers, or with none in its list, lets everybody in.
        peers = rule.get("from")
        return covers(rule) and (not peers or any(matches(peer, source, "llm") for peer in peers))

    return any(
        selects(policy["spec"]["podSelector"], target.labels) and any(map(allows, policy["spec"]["ingress"]))
        for policy in policies(result)
    )


def reachable(result: Plan, target: Member, port: int, **more: Any) -> list[Member]:
    return [source for source in EVERYBODY if reaches(result, source, target, port, **more)]


def isolated(result: Plan, target: Member) -> bool:
    """Some policy is about the pod, so that nothing comes in which no policy allows."""
    return any(
        selects(policy["spec"]["podSelector"], target.labels) and policy["spec"]["policyTypes"] == ["Ingress"]
        for policy in policies(result)
    )


def with_clients(*clients: Any, **spec: Any) -> Plan:
    peers = ControlPeers("outrider-system", OPERATOR, tuple(clients))
    return a_plan(a_model(**spec), settings=PlanSettings(control_peers=peers))


PLAIN = guarded()
GROUPED = guarded(parallelism={"tensor": 4, "nodes": 2}, rollout={"onFailure": "Hold"})
DOWNLOADING = guarded(cache={"size": "1Gi"}, resources=CPU)


def test_only_the_operator_comes_to_the_control_port() -> None:
    assert reachable(PLAIN, ENGINE, 8091) == [THE_OPERATOR]


def test_the_operator_and_the_own_namespace_come_to_the_serving_port() -> None:
    neighbours = [LOOKS_LIKE_THE_OPERATOR, NEIGHBOUR, ENGINE, OTHER_GROUP]
    assert reachable(PLAIN, ENGINE, 8000) == [THE_OPERATOR, *neighbours]


@pytest.mark.parametrize("result", [PLAIN, GROUPED, DOWNLOADING], ids=["plain", "groups", "download"])
@pytest.mark.parametrize("port", [22, 5678, 8090, 15_008, 29_501, 65_535])
def test_a_namespace_that_denies_by_default_is_opened_at_no_other_port_of_an_engine(
    result: Plan, port: int
) -> None:
    assert reachable(result, ENGINE, port) == []
    assert reachable(result, ENGINE, port, protocol="UDP") == []


@given(port=st.integers(1, 65_535), protocol=st.sampled_from(["TCP", "UDP", "SCTP"]))
def test_from_other_namespaces_nothing_is_open_but_what_the_operator_needs(port: int, protocol: str) -> None:
    open_to_the_operator = protocol == "TCP" and port in (8000, 8091)
    expected = [THE_OPERATOR] if open_to_the_operator else []
    strangers = [each for each in EVERYBODY if each.namespace != "llm"]
    found = [each for each in strangers if reaches(PLAIN, each, ENGINE, port, protocol=protocol)]
    assert found == expected


def test_clients_of_other_namespaces_are_let_in_by_name() -> None:
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    result = with_clients(monitoring)
    assert reachable(result, ENGINE, 8000) == [THE_OPERATOR, PROMETHEUS]
    assert reachable(result, ENGINE, 8091) == [THE_OPERATOR]


def test_clients_come_to_the_port_of_the_pool() -> None:
    gateways = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    pool = {"endpointPicker": {"service": "picker"}, "port": 8200}
    result = with_clients(gateways, inferencePool=pool)
    (made,) = (child for child in result.children if child["kind"] == "InferencePool")
    spec: Any = made["spec"]
    for port in spec["targetPorts"]:
        assert reachable(result, ENGINE, port["number"]) == [PROMETHEUS]


def test_without_clients_the_operator_alone_comes_to_engines() -> None:
    assert reachable(with_clients(), ENGINE, 8000) == [THE_OPERATOR]


@pytest.mark.parametrize("target", [LEADER, WORKER], ids=["leader", "worker"])
@pytest.mark.parametrize("port", [29_501, 8091, 41_234])
def test_pods_of_groups_reach_each_other_at_every_port_and_no_one_else_does(
    target: Member, port: int
) -> None:
    assert reaches(GROUPED, LEADER, target, port)
    assert reaches(GROUPED, WORKER, target, port, protocol="UDP")
    expected = [THE_OPERATOR] if target is LEADER and port == 8091 else []
    assert reachable(GROUPED, target, port) == expected


def test_workers_serve_no_one() -> None:
    assert reachable(GROUPED, WORKER, 8000) == []
    assert OTHER_GROUP not in reachable(GROUPED, WORKER, 29_501)


def test_a_group_of_another_namespace_is_another_group() -> None:
    elsewhere = Member("elsewhere", WORKER.labels)
    assert not reaches(GROUPED, elsewhere, LEADER, 29_501)


CONNECTOR = {
    "kvTransferPeer": "prefill",
    "args": {"kv-transfer-config": {"kv_connector": "NixlConnector", "kv_role": "kv_consumer"}},
}
PEER = Member("llm", labels("prefill"))
WORKER_OF_PEER = Member("llm", worker_labels("prefill"))
DECODING = guarded(engine=CONNECTOR)
DECODING_GROUPS = guarded(
    engine=CONNECTOR, parallelism={"tensor": 4, "nodes": 2}, rollout={"onFailure": "Hold"}
)


@pytest.mark.parametrize(
    ("result", "target"),
    [(DECODING, ENGINE), (DECODING_GROUPS, LEADER), (DECODING_GROUPS, WORKER)],
    ids=["engine", "leader", "worker"],
)
@pytest.mark.parametrize("source", [PEER, WORKER_OF_PEER], ids=["from an engine", "from a worker"])
@pytest.mark.parametrize("port", [5600, 41_234])
def test_the_other_end_of_a_kv_connector_comes_to_every_port(
    result: Plan, target: Member, source: Member, port: int
) -> None:
    assert reaches(result, source, target, port)
    assert reaches(result, source, target, port, protocol="UDP")


def test_the_other_end_of_a_kv_connector_is_in_the_same_namespace() -> None:
    assert not reaches(DECODING, Member("elsewhere", PEER.labels), ENGINE, 5600)


def test_a_kv_connector_opens_ports_to_no_one_but_its_other_end() -> None:
    assert reachable(DECODING, ENGINE, 5600) == []
    assert not reaches(DECODING, Member("llm", download_labels("prefill")), ENGINE, 5600)


def test_engines_without_a_peer_open_no_port_to_other_models() -> None:
    assert not reaches(PLAIN, PEER, ENGINE, 5600)


def test_only_the_operator_asks_a_download_how_far_it_is() -> None:
    assert reachable(DOWNLOADING, DOWNLOAD, 8090) == [THE_OPERATOR]
    assert reachable(DOWNLOADING, DOWNLOAD, 8000) == []


@pytest.mark.parametrize(
    ("result", "targets"),
    [(PLAIN, [ENGINE]), (GROUPED, [LEADER, WORKER]), (DOWNLOADING, [ENGINE, DOWNLOAD])],
    ids=["plain", "groups", "download"],
)
def test_every_kind_of_pod_is_isolated(result: Plan, targets: list[Member]) -> None:
    assert [isolated(result, target) for target in targets] == [True] * len(targets)


def test_a_model_has_no_policy_for_pods_that_it_has_not() -> None:
    assert [policy["metadata"]["name"] for policy in policies(PLAIN)] == ["qwen"]
    assert [policy["metadata"]["name"] for policy in policies(GROUPED)] == ["qwen", "qwen-group"]
    assert [policy["metadata"]["name"] for policy in policies(DOWNLOADING)] == ["qwen", "qwen-weights"]


@pytest.mark.parametrize("result", [PLAIN, GROUPED, DOWNLOADING], ids=["plain", "groups", "download"])
def test_policies_name_no_ranges_of_ports_which_some_networks_read_as_their_first(result: Plan) -> None:
    assert "endPort" not in str(policies(result))


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
    assert NEIGHBOUR in reachable(result, ENGINE, 8091, serving=8091)
    assert reachable(result, ENGINE, 8092, serving=8091) == [THE_OPERATOR]


@pytest.mark.parametrize("port", [1024, 8092, 9000, 65_535])
def test_wherever_an_engine_serves_its_control_port_is_another_one(port: int) -> None:
    result = guarded(engine={"port": port})
    assert ports(result) == {"http": port, "outrider-ctrl": 8091}
    assert reachable(result, ENGINE, 8091, serving=port) == [THE_OPERATOR]


def test_the_peers_are_at_most_as_many_as_a_chart_may_name() -> None:
    schema = json.loads((ROOT / "charts/outrider/values.schema.json").read_text())
    most = schema["properties"]["networkPolicy"]["properties"]["clients"]["maxItems"]
    assert len(read_peers(json.dumps([{"podSelector": {}}] * most))) == most
    with pytest.raises(ValueError, match="at most"):
        read_peers(json.dumps([{"podSelector": {}}] * (most + 1)))


def test_without_labels_of_the_operator_pods_are_those_of_before() -> None:
    before = a_plan(a_model())
    assert policies(before) == []
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


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '[{"podSelector":{}}]',
        '[{"namespaceSelector":{}}]',
        '[{"namespaceSelector":{"matchLabels":{"team":"a"}},"podSelector":{"matchLabels":{"app":"gateway"}}}]',
        '[{"podSelector":{"matchExpressions":[{"key":"app","operator":"In","values":["a","b"]}]}}]',
        '[{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}}]',
        '[{"ipBlock":{"cidr":"fd00::/8"}}]',
    ],
)
def test_peers_are_kept_as_they_are_written(text: str) -> None:
    assert json.dumps(read_peers(text), separators=(",", ":")) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "Invalid JSON"),
        ("monitoring", "Invalid JSON"),
        ("{}", "Input should be a valid"),
        ("[{}]", "a peer has namespaceSelector, podSelector or both, or else ipBlock"),
        ('[{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]', "or else ipBlock"),
        ('[{"namespace": "monitoring"}]', "Extra inputs"),
        ('[{"podSelector": {"app": "a"}}]', "Extra inputs"),
        ('[{"podSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}]', "'In', 'NotIn'"),
        ('[{"ipBlock": {"cidr": "10.0.0.0/33"}}]', "does not appear"),
        ('[{"ipBlock": {"cidr": "10.0.0.1/8"}}]', "has host bits set"),
        ('[{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["all"]}}]', "does not appear"),
        ("[" + ",".join(['{"podSelector": {}}'] * 65) + "]", "at most 64 items"),
    ],
)
def test_what_is_no_list_of_peers_is_refused_when_the_operator_starts(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        read_peers(text)
    with pytest.raises(ValueError, match=re.escape(complaint)):
        Settings(client_peers=text)


def test_the_default_of_the_settings_is_that_of_a_plan() -> None:
    assert read_peers(Settings().client_peers) == ControlPeers("outrider-system", OPERATOR).clients
