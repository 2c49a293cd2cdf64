"""Alerts fire when they should, ask for what there is, and lead to a page that says what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from outrider.api.conditions import ConditionStatus, ConditionType
from tests.unit.chart.kit import CHART, ROOT, helm, needs_helm, needs_promtool, of_kind, promtool, render
from tests.unit.chart.promql import existing_metrics, matchers, metric_names

FILE = CHART / "files" / "alerts.yaml"
SCENES = Path(__file__).parent / "alerts.test.yaml"


def content(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return found


RULES: list[dict[str, Any]] = content(FILE)["groups"][0]["rules"]
NAMES = [rule["alert"] for rule in RULES]

each_rule = pytest.mark.parametrize("rule", RULES, ids=NAMES)


def rules_of(*values: str) -> list[dict[str, Any]]:
    """As the chart renders them."""
    rule = of_kind("PrometheusRule", render("prometheusRule.enabled=true", *values))
    found: list[dict[str, Any]] = rule["spec"]["groups"][0]["rules"]
    return found


@needs_promtool
def test_alerts_fire_on_what_they_are_for_and_on_nothing_near_it() -> None:
    result = promtool("test", "rules", SCENES)

    assert result.returncode == 0, result.stdout + result.stderr


@needs_promtool
def test_the_file_can_be_given_to_prometheus_as_it_is() -> None:
    result = promtool("check", "rules", "--lint=all", "--lint-fatal", FILE)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_has_a_scene_that_fires_it_and_one_that_does_not(name: str) -> None:
    scenes = content(SCENES)["tests"]
    expected = [
        bool(asked["exp_alerts"])
        for scene in scenes
        for asked in scene["alert_rule_test"]
        if asked["alertname"] == name
    ]

    assert set(expected) == {True, False}


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_is_named_by_a_test_that_provokes_it_in_a_cluster(name: str) -> None:
    tests = (ROOT / "tests" / "cluster").rglob("test_*.py")

    assert any(f'"{name}"' in file.read_text(encoding="utf-8") for file in tests)


@each_rule
def test_an_alert_asks_for_metrics_that_there_are(rule: dict[str, Any]) -> None:
    asked = metric_names(rule["expr"])

    assert asked
    assert asked <= existing_metrics()


@each_rule
def test_an_alert_on_a_condition_asks_for_one_that_can_be_so(rule: dict[str, Any]) -> None:
    cause, _, other = rule["expr"].partition(" unless on (model_namespace, model) ")
    for asked in (each for each in matchers(cause) if "type" in each):
        kind = ConditionType(asked["type"])  # type: ignore[call-arg]

        assert asked.keys() & {"reason", "status"}
        assert matchers(other.replace("!=", "=")) == [asked]
        assert asked.get("reason", next(iter(kind.reasons))) in set(kind.reasons)
        assert asked.get("status", ConditionStatus.UNKNOWN) in set(ConditionStatus) - {kind.healthy}


@each_rule
def test_an_alert_leads_to_its_runbook(rule: dict[str, Any]) -> None:
    path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    headings = re.findall(r"^## (\w+)$", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)

    assert rule["alert"] in headings
    assert anchor == rule["alert"].lower()


def test_the_runbook_has_no_alert_that_there_is_not() -> None:
    page = (ROOT / "docs" / "runbooks" / "alerts.md").read_text(encoding="utf-8")

    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == NAMES


def steps() -> list[str]:
    """The numbered steps of the runbook, with their commands."""
    page = (ROOT / "docs" / "runbooks" / "alerts.md").read_text(encoding="utf-8")
    return re.findall(r"^\d\. .*\n(?:(?: {4}.*)?\n)*", page, re.MULTILINE)


ONLY_WITHOUT_TARGET = (
    "outrider.dev/model=",
    "outrider_dev_model=",
    "-c engine",
    "outrider verify",
    '"speculation":{',
)


@pytest.mark.parametrize("text", ONLY_WITHOUT_TARGET)
def test_a_step_that_does_not_suit_a_model_with_a_target_says_what_does(text: str) -> None:
    found = [step for step in steps() if text in step]

    assert found
    assert [step for step in found if "With `spec.target`" not in step] == []


@needs_helm
def test_there_are_alerts_only_when_asked_for() -> None:
    assert all(document["kind"] != "PrometheusRule" for document in render())
    assert [rule["alert"] for rule in rules_of()] == NAMES


@needs_helm
def test_the_policy_accepts_the_operator_only_in_the_namespace_of_its_release() -> None:
    result = helm("prometheusRule.enabled=true", flags=("--namespace", "tuning"))
    (found,) = (each for each in yaml.safe_load_all(result.stdout) if each["kind"] == "PrometheusRule")
    rules = {each["alert"]: each for each in found["spec"]["groups"][0]["rules"]}
    about_the_operator = [
        rule for rule in rules.values() if "outrider_" in rule["expr"].replace("outrider_dev_", "")
    ]

    assert len(about_the_operator) == len(NAMES) - 1
    assert {each["namespace"] for rule in about_the_operator for each in matchers(rule["expr"])} == {"tuning"}
    assert rules["OutriderLeaderAbsent"]["labels"]["namespace"] == "tuning"
    assert "outrider-system" not in yaml.safe_dump(found["spec"])


@needs_helm
def test_links_to_runbooks_begin_where_the_pages_are() -> None:
    (link,) = {
        rule["annotations"]["runbook_url"].partition("#")[0]
        for rule in rules_of("prometheusRule.docsUrl=https://git.example/v1/docs/")
    }

    assert link == "https://git.example/v1/docs/runbooks/alerts.md"


@needs_helm
def test_without_an_address_of_the_pages_alerts_have_no_link() -> None:
    assert all("runbook_url" not in rule["annotations"] for rule in rules_of())


@needs_helm
def test_the_first_command_names_the_deployment_of_the_release() -> None:
    result = helm("prometheusRule.enabled=true", "fullnameOverride=tuner", flags=("--namespace", "tuning"))
    (found,) = (each for each in yaml.safe_load_all(result.stdout) if each["kind"] == "PrometheusRule")

    descriptions = [rule["annotations"]["description"] for rule in found["spec"]["groups"][0]["rules"]]
    assert any("kubectl exec -n tuning deploy/" in each for each in descriptions)
    assert all("deploy/outrider --" not in each for each in descriptions)


@needs_helm
def test_the_prometheus_operator_finds_the_alerts_by_their_labels() -> None:
    rule = of_kind(
        "PrometheusRule",
        render("prometheusRule.enabled=true", "prometheusRule.labels.release=stack"),
    )

    assert rule["metadata"]["labels"]["release"] == "stack"


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("max by (model) (last_over_time(a_b{c=\"d_e\"}[2m])) == 1", {"a_b"}),
        ("rate(vllm:x_total[5m]) > 0 and on (pod) outrider:y", {"vllm:x_total", "outrider:y"}),
        ("histogram_quantile(0.99, sum by (le) (rate(s_bucket[5m])))", {"s_bucket"}),
        ("1e3 * up", {"up"}),
    ],
)  # fmt: skip
def test_metric_names_are_found_in_an_expression(expression: str, names: set[str]) -> None:
    assert metric_names(expression) == names
