"""The dashboard asks for what there is, answers three questions, and reaches Grafana when asked to."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.dashboard import FILE_NAME, ROWS, render
from tests.unit.chart.kit import CHART, needs_helm, needs_promtool, of_kind, promtool
from tests.unit.chart.kit import render as rendered
from tests.unit.chart.promql import PROMTOOL, existing_metrics, metric_names
from tests.unit.controller.full_metrics import families, full_metrics

BOARD: dict[str, Any] = json.loads(render())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
VARIABLES = {variable["name"] for variable in BOARD["templating"]["list"]}

each_expression = pytest.mark.parametrize("expression", EXPRESSIONS)


def filled(expression: str) -> str:
    """As Grafana sends it."""
    return re.sub(r"\$(model_namespace|model)\b", ".+", expression.replace("$__rate_interval", "1m"))


def labels_of_models() -> dict[str, set[str]]:
    """Labels of each metric of a model."""
    return {
        name: {label for sample in family.samples for label in sample.labels}
        for name, family in families(full_metrics()).items()
        if name.startswith("outrider_model_")
    }


def test_the_file_is_up_to_date() -> None:
    shipped = (CHART / "dashboards" / FILE_NAME).read_text(encoding="utf-8")

    assert shipped == render(), "stale: run `python -m charts.dashboard --write charts/outrider/dashboards/`"


def test_it_answers_three_questions() -> None:
    assert [row.question for row in ROWS] == [
        "Does speculation pay?",
        "What does the tuner do, and why?",
        "Is anything wrong?",
    ]


@needs_promtool
def test_every_query_parses(tmp_path: Path) -> None:
    rules = [{"record": f"q{number}", "expr": filled(each)} for number, each in enumerate(EXPRESSIONS)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    result = promtool("check", "rules", "--lint=none", file)

    assert result.returncode == 0, result.stderr


@needs_promtool
def test_a_query_that_does_not_parse_would_be_seen(tmp_path: Path) -> None:
    file = tmp_path / "queries.yaml"
    file.write_text('groups: [{name: g, rules: [{record: q, expr: "sum by (a (b)"}]}]')
    assert PROMTOOL is not None

    result = subprocess.run(
        [PROMTOOL, "check", "rules", "--lint=none", file], capture_output=True, check=False
    )

    assert result.returncode != 0


@each_expression
def test_a_query_asks_for_metrics_that_there_are(expression: str) -> None:
    asked = metric_names(filled(expression))

    assert asked
    assert asked <= existing_metrics()


@each_expression
def test_a_query_uses_no_variable_that_there_is_not(expression: str) -> None:
    assert set(re.findall(r"\$\{?(\w+)", expression)) <= VARIABLES | {"__rate_interval"}


@each_expression
def test_a_query_of_a_model_groups_by_labels_that_its_metric_has(expression: str) -> None:
    known = labels_of_models()
    for name in metric_names(filled(expression)) & known.keys():
        grouped = re.findall(r"by \(([^)]*)\)", expression)
        matched = re.findall(rf"{name}\{{([^}}]*)\}}", expression)
        asked = {label.strip() for group in grouped for label in group.split(",")}
        asked |= {label for each in matched for label in re.findall(r"(\w+)\s*=~", each)}

        assert asked <= known[name]


def test_every_metric_of_a_model_is_on_it_but_what_another_one_says_better() -> None:
    asked = {name for expression in EXPRESSIONS for name in metric_names(filled(expression))}

    assert labels_of_models().keys() - asked == {
        "outrider_model_speedup_measured_timestamp_seconds",  # the course of the speedup
        "outrider_model_latency_kept",  # the percentile beside its limit, and the condition SLOKept
        "outrider_model_speculation_state",  # K by batch size
    }


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_a_panel_says_how_it_is_read_and_asks_the_chosen_source(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
    assert {source["uid"] for source in sources} == {"${datasource}"}


def test_panels_have_ids_of_their_own_and_lie_beside_each_other() -> None:
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)

    for one, other in combinations((panel["gridPos"] for panel in BOARD["panels"]), 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


@needs_helm
def test_it_is_a_config_map_for_the_sidecar_only_when_asked_for() -> None:
    name = "outrider-dashboard"
    assert all(document["metadata"]["name"] != name for document in rendered())

    found = of_kind(
        "ConfigMap", rendered("dashboard.enabled=true", "dashboard.annotations.grafana_folder=LLM")
    )

    assert found["metadata"]["name"] == name
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"] == {"grafana_folder": "LLM"}
    assert json.loads(found["data"]["outrider.json"]) == BOARD
