"""Names and labels of the chart's objects: whatever Helm and Kubernetes allow for a release installs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.chart.kit import helm, needs_helm, of_kind, render

pytestmark = needs_helm

EVERYTHING = (
    "podMonitor.enabled=true",
    "prometheusRule.enabled=true",
    "dashboard.enabled=true",
    "networkPolicy.enabled=true",
    "operatorNetworkPolicy.enabled=true",
    "admissionPolicy.enabled=true",
    "replicas=2",
)
NUMBERS = (
    "watchNamespaces={100,200}",
    "nameOverride=7",
    "priorityClassName=1000",
    "prometheus.tokenSecret.name=5",
    "prometheus.caConfigMap.name=6",
)
LONGEST = "r" * 53
"""Helm allows no longer name of a release."""


def entries(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every text, number and boolean of an object, with the keys that lead to it."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from entries(entry, (*path, str(key)))
    elif isinstance(value, list):
        for entry in value:
            yield from entries(entry, path)
    else:
        yield path, value


def is_a_text(path: tuple[str, ...]) -> bool:
    named = path[-1] in {"name", "namespace", "policyName", "serviceAccountName", "secretName"}
    return (
        named
        or path[-1] == "priorityClassName"
        or {"labels", "matchLabels", "matchNames"} & set(path) != set()
    )


@pytest.mark.parametrize("release", ["outrider", "42"])
def test_numbers_are_names_like_others(release: str) -> None:
    texts = [word for number in NUMBERS for word in ("--set-string", number)]
    documents = render(*EVERYTHING, flags=(*texts, "--namespace", "2024"), release=release)

    wrong = [
        (document["kind"], path, value)
        for document in documents
        if document["kind"] != "CustomResourceDefinition"
        for path, value in entries(document)
        if path and is_a_text(path) and not isinstance(value, str)
    ]
    assert not wrong
    (container,) = of_kind("Deployment", documents)["spec"]["template"]["spec"]["containers"]
    peers = next(entry["value"] for entry in container["env"] if entry["name"] == "OUTRIDER_CONTROL_PEERS")
    assert peers.split() == [f"app.kubernetes.io/instance={release}", "app.kubernetes.io/name=7"]


@pytest.mark.parametrize("release", [LONGEST, LONGEST[:50] + "-rr"])
def test_the_longest_release_has_names_that_fit(release: str) -> None:
    documents = render(*EVERYTHING, release=release)

    assert len(of_kind("Service", documents)["metadata"]["name"]) <= 63
    for document in documents:
        assert not document["metadata"]["name"].endswith("-")
        assert all(len(label) <= 63 for label in document["metadata"].get("labels", {}).values())


@pytest.mark.parametrize(
    "place", ["podLabels", "podMonitor.labels", "prometheusRule.labels", "dashboard.labels"]
)
def test_labels_of_the_chart_are_not_given_twice(place: str) -> None:
    refused = helm(f"{place}.app\\.kubernetes\\.io/name=other")

    assert refused.returncode != 0
    assert "app.kubernetes.io/name" in refused.stderr
