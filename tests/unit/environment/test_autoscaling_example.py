"""The examples ask for what the operator writes, under the labels that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from outrider.api.quantity import MAX_PODS
from outrider.controller.own_metrics import DemandMetrics

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "autoscaling"
KEDA = ("keda.yaml", "keda-to-zero.yaml")


def read(name: str) -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    return manifest


def written() -> dict[str, set[str]]:
    """Label names by metric, as they arrive where the target has a label `namespace` of its own."""
    registry = CollectorRegistry()
    DemandMetrics(registry).show("prod", "qwen3", required_replicas=2, saturation_ratio=1.5, now=0)
    samples = [sample for family in registry.collect() for sample in family.samples]
    return {each.name: {_arrived(label) for label in each.labels} for each in samples}


def _arrived(label: str) -> str:
    return "exported_namespace" if label == "namespace" else label


def operators_job() -> dict[str, Any]:
    """How the local cluster's Prometheus scrapes the operator."""
    manifests = yaml.safe_load_all(
        (ROOT / "tests" / "environment" / "prometheus" / "prometheus.yaml").read_text()
    )
    files = next(manifest["data"] for manifest in manifests if manifest["kind"] == "ConfigMap")
    jobs = yaml.safe_load(files["prometheus.yml"])["scrape_configs"]
    job: dict[str, Any] = next(job for job in jobs if "operator" in job["job_name"])
    return job


def keda_query(name: str) -> str:
    """The query for the metric of the operator, which the first trigger has."""
    query: str = read(name)["spec"]["triggers"][0]["metadata"]["query"]
    return query


def adapter_rule() -> dict[str, Any]:
    (rule,) = yaml.safe_load(read("adapter-rules.yaml")["data"]["config.yaml"])["externalRules"]
    found: dict[str, Any] = rule
    return found


def test_the_autoscaler_selects_by_a_label_of_the_metric() -> None:
    metric = read("hpa.yaml")["spec"]["metrics"][0]["external"]["metric"]
    assert metric["selector"]["matchLabels"].keys() <= written()[metric["name"]]


def test_the_adapter_serves_the_metric_by_its_namespace() -> None:
    rule = adapter_rule()
    metric = read("hpa.yaml")["spec"]["metrics"][0]["external"]["metric"]["name"]
    assert f'__name__="{metric}"' in rule["seriesQuery"]
    assert rule["resources"]["overrides"].keys() <= written()[metric]


def test_only_what_the_operators_own_job_scraped_counts() -> None:
    rule, job = adapter_rule(), operators_job()

    (namespace,) = job["kubernetes_sd_configs"][0]["namespaces"]["names"]
    for query in (rule["seriesQuery"], rule["metricsQuery"], *map(keda_query, KEDA)):
        assert f'job="{job["job_name"]}"' in query
        assert f'namespace="{namespace}"' in query.replace("exported_namespace", "")
    assert "honor_labels" not in job


def test_the_adapter_s_values_name_the_rules() -> None:
    name = read("adapter-rules.yaml")["metadata"]["name"]
    assert read("prometheus-adapter-values.yaml")["rules"]["existing"] == name


@pytest.mark.parametrize("name", KEDA)
def test_keda_asks_for_the_same(name: str) -> None:
    metric = read("hpa.yaml")["spec"]["metrics"][0]["external"]["metric"]["name"]
    assert all(label in keda_query(name) for label in {metric, *written()[metric]})


def test_to_zero_one_trigger_sets_the_number_and_the_other_whether_there_is_any() -> None:
    number, any_at_all = (trigger["metadata"] for trigger in read("keda-to-zero.yaml")["spec"]["triggers"])
    assert float(number["activationThreshold"]) > MAX_PODS
    assert "activationThreshold" not in any_at_all
    assert number["threshold"] == "1"
    assert float(any_at_all["threshold"]) >= MAX_PODS
