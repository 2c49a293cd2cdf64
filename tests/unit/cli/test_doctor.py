"""``outrider doctor``: what it sees, what it says of it, and what to do."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from outrider import __version__
from outrider.api.resource import SpeculativeModel
from outrider.cli.doctor import checks
from outrider.cli.doctor.checks import findings
from outrider.cli.doctor.evidence import (
    Evidence,
    Metrics,
    NodeClock,
    OfOperator,
    Operator,
    Right,
    Silent,
    Target,
)
from outrider.cli.doctor.findings import Level, Unseen
from outrider.cli.doctor.reading import OF_THE_OPERATOR
from outrider.cli.main import app
from outrider.cluster.installation import Claim
from outrider.cluster.shards import Shard
from outrider.controller.settings import LeaderElection, Settings
from tests.unit.cli.doctor_kit import (
    DEFINITION,
    KEY,
    NOW,
    OPERATOR,
    PROXY,
    REIGN,
    SERIES,
    WELL,
    a_cluster,
    not_fine,
    told,
)
from tests.unit.cli.kubernetes import Kubernetes, a_list, serving
from tests.unit.controller.factories import a_raw_model

HELPERS = Path(__file__).parents[3] / "charts" / "outrider" / "templates" / "_helpers.tpl"


def a_crd_of_another_version() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(DEFINITION))
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].pop("status")
    return found


@pytest.fixture(autouse=True)
def the_definition_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "custom_resource_definition", lambda: DEFINITION)


def metrics(**changes: Any) -> tuple[OfOperator[Metrics | Silent | None], ...]:
    return (OfOperator(OPERATOR, replace(SERIES, **changes)),)


def test_nothing_is_to_be_done_where_all_is_well() -> None:
    assert not_fine(WELL) == []


@pytest.mark.parametrize(
    ("changes", "level", "message", "action"),
    [
        ({"crd": None}, Level.BAD, "there is no SpeculativeModel", "install the chart"),
        (
            {"crd": a_crd_of_another_version()},
            Level.WARNING,
            "its schema is not that of outrider",
            "upgrade the chart",
        ),
        (
            {
                "operators": (
                    Operator(
                        "o", "outrider", __version__, 0, 1, Settings(leader_election=LeaderElection.OFF)
                    ),
                )
            },
            Level.BAD,
            "o/outrider: 0 of 1 pod ready",
            "kubectl describe pods -n o",
        ),
        (
            {"terms": (replace(REIGN, renewed=NOW - timedelta(minutes=5)),)},
            Level.BAD,
            "no operator leads in outrider-system",
            "kubectl logs -n outrider-system",
        ),
        ({"terms": (replace(REIGN, holder=""),)}, Level.BAD, "no operator leads", "kubectl logs"),
        ({"terms": ()}, Level.BAD, "no operator leads in outrider-system", "kubectl logs"),
        (
            {"terms": (replace(REIGN, claim=Claim(account="outrider", shard=Shard(1, 2))),)},
            Level.BAD,
            "no operator leads shard 2-of-2 in outrider-system",
            "kubectl logs",
        ),
        (
            {"terms": (REIGN, replace(REIGN, namespace="other"))},
            Level.WARNING,
            "the operators in outrider-system and other watch the same",
            "watchNamespaces",
        ),
        (
            {"missing_of_operators": (OfOperator(OPERATOR, {"team": (Right("", "pods", "watch"),)}),)},
            Level.BAD,
            "the operator may not watch pods in team",
            "helm upgrade",
        ),
        (
            {"missing_of_caller": (Right("", "configmaps", "get", "outrider explain"),)},
            Level.WARNING,
            "you may not get configmaps",
            "it is needed for outrider explain",
        ),
        (
            {"metrics": metrics(targets=frozenset())},
            Level.BAD,
            "there are no series of default/m-1",
            "installation guide",
        ),
        (
            {"metrics": metrics(targets=frozenset({Target("default", "m-1", "", "pods")}))},
            Level.BAD,
            "lack the label outrider_dev_model=m",
            "scrape engine pods with these labels",
        ),
        (
            {"metrics": metrics(targets=frozenset({Target("", "", "m", "pods")}))},
            Level.BAD,
            "some lack the label namespace or pod",
            "scrape engine pods with these labels",
        ),
        (
            {"metrics": metrics(samples_per_minute={KEY: 1.0})},
            Level.WARNING,
            "1 samples of an engine in the last minute",
            "scrape every 5 to 15 s",
        ),
        (
            {
                "metrics": metrics(
                    targets=frozenset({Target(*KEY, "m", "pods"), Target(*KEY, "m", "engines")})
                )
            },
            Level.WARNING,
            "scraped by 2 jobs: engines, pods",
            "leave one of them",
        ),
        ({"metrics": metrics(live_tuning={})}, Level.WARNING, "shows none", "an image with the plugin"),
        (
            {"metrics": metrics(live_tuning={KEY: False})},
            Level.BAD,
            "its schedule cannot change",
            "outrider status m",
        ),
        ({"offered": {}}, Level.BAD, "no node offers any", "install the device plugin"),
        ({"offered": {"nvidia.com/gpu": 1}}, Level.WARNING, "nodes offer 1", "add nodes"),
        (
            {"clocks": (NodeClock("n", NOW + timedelta(seconds=30), NOW),)},
            Level.WARNING,
            "node n is 30 s ahead of the API server",
            "NTP",
        ),
        (
            {"clocks": (NodeClock("n", NOW - timedelta(seconds=30), NOW),)},
            Level.WARNING,
            "node n is 30 s behind the API server",
            "NTP",
        ),
        (
            {"now": NOW + timedelta(minutes=5), "terms": Unseen("no")},
            Level.WARNING,
            "this machine is 300 s ahead of the cluster",
            "NTP",
        ),
    ],
)
def test_each_trouble_is_told_with_what_to_do(
    changes: dict[str, Any], level: Level, message: str, action: str
) -> None:
    found = [each for each in not_fine(replace(WELL, **changes)) if each.level is level]
    assert any(message in each.message and action in each.action for each in found), found


@pytest.mark.parametrize(
    "part",
    [field.name for field in fields(Evidence) if field.name != "now"],
)
def test_what_may_not_be_looked_at_is_said_and_is_no_trouble(part: str) -> None:
    change: dict[str, Any] = {part: Unseen("nodes is forbidden")}
    found = not_fine(replace(WELL, **change))
    assert [each.level for each in found] == [Level.UNSEEN]
    assert found[0].message == "not read: nodes is forbidden"


def test_an_operator_that_asks_the_pods_itself_needs_no_prometheus() -> None:
    asking_pods = replace(WELL, metrics=(OfOperator(OPERATOR, None),))
    (found,) = (each for each in findings(asking_pods) if each.subject == "Prometheus")
    assert (found.level, found.message) == (Level.FINE, "not needed: the operator scrapes the engines")


def test_the_rights_of_the_operator_are_those_of_the_chart() -> None:
    text = HELPERS.read_text()
    # Those that a value adds are missed by the operator itself, in Degraded.
    rules = yaml.safe_load(text.split('define "outrider.rules" -}}')[1].split("{{- if")[0])
    granted = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {(right.group, right.resource, right.verb) for right in OF_THE_OPERATOR} == granted


def test_prometheus_is_asked_through_the_api_server_as_the_operator_names_it(tmp_path: Path) -> None:
    cluster = a_cluster()
    found = told(cluster, tmp_path)
    assert found["Prometheus"] == [
        "fine: has samples of 1 engine pod, all with the labels that Outrider needs"
    ]
    assert found["plugin"] == ["fine: 1 engine pod can change the schedule live"]
    assert any(asked.startswith(f"GET {PROXY}?query=count") for asked in cluster.asked)


@pytest.mark.parametrize(
    "speculation", [{"method": "none"}, {"method": "ngram", "tuning": {"actuation": "Rollout"}}]
)
def test_no_plugin_is_missed_where_none_is_needed(tmp_path: Path, speculation: dict[str, Any]) -> None:
    cluster = a_cluster()
    models = a_list(a_raw_model("m", namespace="team-a", speculation=speculation))
    cluster.objects["/apis/outrider.dev/v1alpha1/speculativemodels"] = models
    assert "plugin" not in told(cluster, tmp_path)


def test_the_operators_rights_are_asked_about_where_it_watches(tmp_path: Path) -> None:
    cluster = a_cluster()
    account = "system:serviceaccount:outrider-system:outrider"
    cluster.review = lambda spec: (
        spec.get("user") != account
        or (spec["resourceAttributes"]["namespace"], spec["resourceAttributes"]["verb"])
        != ("team-b", "delete")
    )
    assert told(cluster, tmp_path)["its rights"] == [
        "fine: the operator may do what it needs in team-a",
        "bad: the operator may not delete deployments, delete jobs, delete poddisruptionbudgets, "
        "delete inferencepools in team-b",
    ]


def test_a_caller_with_few_rights_still_gets_the_rest(tmp_path: Path) -> None:
    cluster = a_cluster()
    cluster.refused = lambda _, path: path == "/api/v1/nodes"
    found = told(cluster, tmp_path)
    assert found["GPUs"] == ["unseen: not read: /api/v1/nodes is forbidden"]
    assert found["Prometheus"][0].startswith("fine")


def test_a_prometheus_that_is_not_there_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    cluster = a_cluster()
    del cluster.objects[PROXY]
    found = told(cluster, tmp_path)
    assert found["Prometheus"] == ["bad: http://prometheus.monitoring.svc:9090 is not reached: not there"]
    assert found["clocks"] == ["fine: 1 node and this machine agree"]


def test_trouble_ends_with_1_and_is_told_to_people_with_what_to_do(tmp_path: Path) -> None:
    with serving(Kubernetes({"/apis/apps/v1/deployments": a_list()}), tmp_path) as environment:
        result = CliRunner().invoke(app, ["doctor"], env=environment)
    assert result.exit_code == 1
    assert "bad      operator: none is installed\n         do: install the chart" in result.stdout


def test_nothing_is_written(tmp_path: Path) -> None:
    cluster = a_cluster()
    told(cluster, tmp_path)
    assert cluster.written == []


def test_without_a_cluster_it_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "none"
    result = CliRunner().invoke(app, ["doctor"], env={"KUBECONFIG": str(file)})
    told = (
        f"outrider doctor: no cluster to ask: there is no file {file}. Set KUBECONFIG, or use --kubeconfig.\n"
    )
    assert (result.exit_code, result.output) == (2, told)


def a_model_of(**engine: Any) -> SpeculativeModel:
    return SpeculativeModel.model_validate(
        {
            "metadata": {"name": "m", "namespace": "llm"},
            "spec": {
                "model": {"uri": "hf://Qwen/Qwen3-Next-80B-A3B-Instruct"},
                "speculation": {"method": "mtp", "numSpeculativeTokens": 2},
                "engine": engine,
            },
        }
    )


def test_a_launch_that_a_known_defect_falsifies_is_found() -> None:
    found, *_ = not_fine(replace(WELL, models=(a_model_of(version="0.29.0"),)))
    assert (found.level, found.subject) == (Level.BAD, "launches")
    assert "llm/m is refused: vLLM 0.29.0: answers are silently wrong" in found.message
    assert "Known defects" in found.action
