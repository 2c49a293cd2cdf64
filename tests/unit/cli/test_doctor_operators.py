"""``outrider doctor`` of several operators: what each may do, leads, watches and measures."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from outrider import __version__
from outrider.cli.doctor.checks import findings
from outrider.cli.doctor.evidence import EnginePod, OfOperator, Operator, Right
from outrider.cli.doctor.findings import Finding, Level, Unseen
from outrider.cluster.installation import Claim, Installation
from outrider.cluster.shards import Shard
from outrider.controller.settings import LeaderElection, Settings
from tests.unit.cli.doctor_kit import (
    NOW,
    OPERATOR,
    PROXY,
    REIGN,
    SERIES,
    WELL,
    a_cluster,
    an_operator,
    not_fine,
    told,
)
from tests.unit.cli.kubernetes import a_list

DEPLOYMENTS = "/apis/apps/v1/deployments"


def installed(namespace: str, name: str = "outrider", **settings: Any) -> Operator:
    return Operator(namespace, name, __version__, 1, 1, Settings(**settings))


def a_term(namespace: str, *watches: str, **changes: Any) -> Installation:
    claim = Claim(watches=frozenset(watches), account="outrider")
    return replace(REIGN, **{"namespace": namespace, "claim": claim, **changes})


def overdue(term: Installation) -> Installation:
    return replace(term, renewed=NOW - timedelta(days=9))


def of(subject: str, **changes: Any) -> list[Finding]:
    return [each for each in findings(replace(WELL, **changes)) if each.subject == subject]


def test_any_two_operators_may_watch_the_same_namespace() -> None:
    terms = (a_term("a", "x"), a_term("b", "y"), a_term("c", "x"))
    operators = tuple(installed(each.namespace) for each in terms)
    (found,) = not_fine(replace(WELL, operators=operators, terms=terms))
    assert (found.level, found.message) == (
        Level.WARNING,
        "the operators in a and c watch the same namespaces",
    )


def test_two_releases_in_one_namespace_share_a_lease() -> None:
    operators = (OPERATOR, replace(OPERATOR, name="second"))
    (found,) = not_fine(replace(WELL, operators=operators))
    assert found == Finding(
        Level.BAD,
        "operator",
        "outrider-system/outrider and outrider-system/second share the Lease outrider in outrider-system, "
        "so only the one that leads serves its models",
        "move one release to a namespace of its own",
    )


@pytest.mark.parametrize(
    "second",
    [
        installed("outrider-system", "second", leader_election=LeaderElection.OFF),
        installed("outrider-system", "second", lease_namespace="elsewhere"),
        replace(installed("outrider-system", "second"), wanted=0, ready=1),
    ],
    ids=["it has no Lease", "its Lease is elsewhere", "it has no pods"],
)
def test_a_release_with_another_lease_or_none_shares_none(second: Operator) -> None:
    found = of("operator", operators=(OPERATOR, second))
    assert not any("share the Lease" in each.message for each in found)


@pytest.mark.parametrize(
    "operator",
    [installed("outrider-system", leader_election=LeaderElection.OFF), installed("moved")],
    ids=["no election", "another namespace"],
)
def test_a_lease_of_a_former_release_is_no_missing_leader(operator: Operator) -> None:
    left = overdue(a_term("outrider-system"))
    terms = (left, a_term("moved")) if operator.elects else (left,)
    found = of("leader", operators=(operator,), terms=terms)
    assert {each.level for each in found} == {Level.FINE}
    assert found[0].message == (
        "the Lease in outrider-system is left over: no operator there elects a leader"
    )


def test_shards_of_a_former_release_are_not_missed() -> None:
    claim = Claim(account="outrider", shard=Shard(1, 3))
    found = of("leader", operators=(), terms=(overdue(a_term("outrider-system", claim=claim)),))
    assert [each.level for each in found] == [Level.FINE]


def test_a_lease_that_is_renewed_counts_without_a_deployment_of_the_chart() -> None:
    found = of("leader", operators=(), terms=(a_term("by-hand"),))
    assert [each.message for each in found] == ["outrider-1, term 7, watches all namespaces"]


def test_where_deployments_are_unseen_a_lease_that_is_overdue_misses_its_leader() -> None:
    found = of("leader", operators=Unseen("forbidden"), terms=(overdue(a_term("a")),))
    assert [(each.level, each.message) for each in found] == [(Level.BAD, "no operator leads in a")]


def test_the_setting_of_the_leases_namespace_says_where_a_leader_is_expected() -> None:
    operator = installed("here", lease_namespace="there")
    assert of("leader", operators=(operator,), terms=(a_term("there"),))[0].level is Level.FINE


FIRST, SECOND = installed("a", watch_namespaces=("x",)), installed("b", watch_namespaces=("default",))


def test_a_prometheus_has_to_know_the_engines_of_its_own_operator_only() -> None:
    nothing = replace(SERIES, targets=frozenset(), samples_per_minute={}, live_tuning={})
    metrics = (OfOperator(FIRST, nothing), OfOperator(SECOND, SERIES))
    assert [each.message for each in of("Prometheus", metrics=metrics)] == [
        "a/outrider: reached; no engine serves yet",
        "b/outrider: has samples of 1 engine pod, all with the labels that Outrider needs",
    ]


def test_an_engine_that_its_own_prometheus_lacks_is_found_by_the_operator() -> None:
    engines = (EnginePod("x", "m-2", "m", live=True),)
    metrics = (OfOperator(FIRST, SERIES), OfOperator(SECOND, SERIES))
    found = of("Prometheus", metrics=metrics, engines=engines)
    assert [(each.level, each.message) for each in found] == [
        (Level.BAD, "a/outrider: there are no series of x/m-2"),
        (Level.FINE, "b/outrider: reached; no engine serves yet"),
    ]


def test_each_operator_has_its_own_rights() -> None:
    parts: tuple[OfOperator[Any], ...] = (
        OfOperator(FIRST, {"x": ()}),
        OfOperator(SECOND, {"default": (Right("", "pods", "list"),)}),
        OfOperator(OPERATOR, Unseen("forbidden")),
    )
    assert [each.message for each in of("its rights", missing_of_operators=parts)] == [
        "a/outrider: the operator may do what it needs in x",
        "b/outrider: the operator may not list pods in default",
        "outrider-system/outrider: not read: forbidden",
    ]


def test_every_operator_of_a_cluster_is_asked_about(tmp_path: Path) -> None:
    cluster = a_cluster()
    cluster.objects[DEPLOYMENTS] = a_list(
        an_operator("a", OUTRIDER_WATCH_NAMESPACES="team-a"),
        an_operator(
            "b", OUTRIDER_WATCH_NAMESPACES="team-b", OUTRIDER_PROMETHEUS_URL="http://other.b.svc:9090"
        ),
    )
    cluster.objects[PROXY.replace("monitoring", "b").replace("prometheus", "other")] = {
        "status": "success",
        "data": {"result": []},
    }
    found = told(cluster, tmp_path)
    assert found["its rights"] == [
        "fine: a/outrider: the operator may do what it needs in team-a",
        "fine: b/outrider: the operator may do what it needs in team-b",
    ]
    assert found["Prometheus"] == [
        "fine: a/outrider: has samples of 1 engine pod, all with the labels that Outrider needs",
        "fine: b/outrider: reached; no engine serves yet",
    ]


@pytest.mark.parametrize("broken", [{"OUTRIDER_SHARDS": "many"}])
def test_settings_that_cannot_be_read_hide_no_other_operator(broken: dict[str, str], tmp_path: Path) -> None:
    cluster = a_cluster()
    cluster.objects[DEPLOYMENTS] = a_list(
        an_operator("a", **broken), an_operator("b", OUTRIDER_WATCH_NAMESPACES="team-a")
    )
    found = told(cluster, tmp_path)
    assert found["Prometheus"][0].startswith("unseen: a/outrider: not read: the settings of a/outrider")
    assert found["Prometheus"][1].startswith("fine: b/outrider: has samples of 1 engine pod")


def test_an_operator_is_known_by_its_variables_and_not_by_a_name_that_a_value_changes(
    tmp_path: Path,
) -> None:
    cluster = a_cluster()
    other = an_operator("cert-manager", "cert-manager", POD_NAMESPACE="cert-manager")
    ours = an_operator(OUTRIDER_WATCH_NAMESPACES="team-a")
    ours["metadata"]["labels"]["app.kubernetes.io/name"] = "speculation"
    cluster.objects[DEPLOYMENTS] = a_list(other, ours)
    found = told(cluster, tmp_path)
    assert found["operator"] == [f"fine: outrider-system/outrider {__version__}, 1 of 1 pod ready"]
    (asked,) = (each for each in cluster.asked if f"GET {DEPLOYMENTS}?" in each and "component" in each)
    assert "labelSelector=app.kubernetes.io/component%3Doperator&" in asked


def a_monitor(name: str, selector: dict[str, Any], release: str = "outrider") -> dict[str, Any]:
    labels = {"app.kubernetes.io/instance": release, "app.kubernetes.io/name": "speculation"}
    metadata = {"name": name, "namespace": "outrider-system", "labels": labels}
    return {"metadata": metadata, "spec": {"selector": selector}}


def test_pod_monitors_of_a_release_are_known_by_that_of_its_engines(tmp_path: Path) -> None:
    cluster = a_cluster()
    cluster.objects["/apis/monitoring.coreos.com/v1/podmonitors"] = a_list(
        a_monitor("engines", {"matchExpressions": [{"key": "outrider.dev/model", "operator": "Exists"}]}),
        a_monitor("operator", {"matchLabels": {"app.kubernetes.io/instance": "outrider"}}),
        a_monitor("of-others", {"matchLabels": {"app": "x"}}, release="x"),
    )
    cluster.objects["/apis/monitoring.coreos.com/v1/prometheuses"] = a_list(
        {
            "metadata": {"name": "p", "namespace": "monitoring"},
            "spec": {"podMonitorSelector": {"matchLabels": {"release": "stack"}}},
        }
    )
    found = told(cluster, tmp_path)["PodMonitor"]
    assert [each.split(",")[0] for each in found] == [
        "bad: no Prometheus takes outrider-system/engines",
        "bad: no Prometheus takes outrider-system/operator",
    ]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (httpx.Response(401), "Client error '401 Unauthorized' for url"),
        (httpx.Response(200, text="<html>Log in"), "Expecting value"),
        (httpx.Response(200, json={"login": "/"}), "the answer is not that of a Prometheus: Field required"),
        (httpx.ConnectError("[Errno -2] Name or service not known"), "Name or service not known"),
        (httpx.ConnectError("certificate verify failed"), "certificate verify failed"),
        (httpx.ReadTimeout(""), "ReadTimeout"),
    ],
    ids=["a login", "a page for a login", "another server", "a name of the cluster", "a private CA", "late"],
)
@pytest.mark.parametrize("url", ["https://prometheus.example.com", "http://prometheus:9090"])
def test_a_prometheus_that_only_the_operator_reaches_cannot_be_asked(
    answer: httpx.Response | httpx.HTTPError,
    why: str,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answered(_: httpx.Request) -> httpx.Response:
        if isinstance(answer, httpx.HTTPError):
            raise answer
        return answer

    client = partial(httpx.AsyncClient, transport=httpx.MockTransport(answered))
    monkeypatch.setattr(httpx, "AsyncClient", client)
    cluster = a_cluster()
    cluster.objects[DEPLOYMENTS] = a_list(an_operator(OUTRIDER_PROMETHEUS_URL=url))
    (found,) = told(cluster, tmp_path)["Prometheus"]
    assert found.startswith(f"unseen: not read: this machine asked {url} in vain, because it lacks")
    assert why in found
    assert found.endswith("The condition MetricsAvailable shows what the operator gets")
    assert "\n" not in found


@pytest.mark.parametrize("url", ["http://[x", "http://prometheus.monitoring.svc:port"])
def test_an_address_that_is_none_is_a_fault_of_the_setting(url: str, tmp_path: Path) -> None:
    cluster = a_cluster()
    cluster.objects[DEPLOYMENTS] = a_list(an_operator(OUTRIDER_PROMETHEUS_URL=url))
    (found,) = told(cluster, tmp_path)["Prometheus"]
    assert found.startswith(f"bad: {url} is not reached: ")
