"""The examples ask for what the operator writes, under the labels that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry

from outrider.controller.demand import Demand
from outrider.controller.demand_metrics import DemandMetrics

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "autoscaling"


def read(name: str) -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    return manifest


def written() -> dict[str, set[str]]:
    """Label names by metric."""
    registry = CollectorRegistry()
    DemandMetrics(registry).show("prod", "qwen3", Demand(2, 1.5), now=0)
    return {sample.name: set(sample.labels) for family in registry.collect() for sample in family.samples}


def test_the_autoscaler_selects_by_a_label_of_the_metric() -> None:
    metric = read("hpa.yaml")["spec"]["metrics"][0]["external"]["metric"]
    assert metric["selector"]["matchLabels"].keys() <= written()[metric["name"]]


def test_the_adapter_serves_the_metric_by_its_namespace() -> None:
    (rule,) = yaml.safe_load(read("adapter-rules.yaml")["data"]["config.yaml"])["externalRules"]
    metric = read("hpa.yaml")["spec"]["metrics"][0]["external"]["metric"]["name"]
    assert f'__name__="{metric}"' in rule["seriesQuery"]
    assert rule["resources"]["overrides"].keys() <= written()[metric]


def test_the_adapter_s_values_name_the_rules() -> None:
    name = read("adapter-rules.yaml")["metadata"]["name"]
    assert read("prometheus-adapter-values.yaml")["rules"]["existing"] == name


def test_keda_asks_for_the_same() -> None:
    (trigger,) = read("keda.yaml")["spec"]["triggers"]
    metric = read("hpa.yaml")["spec"]["metrics"][0]["external"]["metric"]["name"]
    assert all(label in trigger["metadata"]["query"] for label in {metric, *written()[metric]})
