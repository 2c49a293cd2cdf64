"""A Prometheus for the models of one operator, so that a test can stop it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from tests.cluster.kubectl import Object, apply, kubectl, namespace, operator_namespace
from tests.cluster.own_operator import ENVIRONMENT

DEPLOYMENT = "deployment/prometheus"
URL = "http://prometheus.{}.svc:9090"


def start_prometheus() -> None:
    """The cluster's once more, beside the operator of the models; it goes with that namespace."""
    for manifest in manifests():
        apply(manifest)
    kubectl("rollout", "status", DEPLOYMENT, "-n", operator_namespace(), "--timeout=90s")


def manifests() -> Iterator[Object]:
    """It sees the pods of the models' namespace, and no operator."""
    file = ENVIRONMENT / "prometheus" / "prometheus.yaml"
    for manifest in yaml.safe_load_all(file.read_text()):
        kind, metadata = manifest["kind"], manifest["metadata"]
        if kind in ("Namespace", "ClusterRole"):
            continue
        metadata["namespace"] = operator_namespace()
        if kind == "ClusterRoleBinding":
            manifest["kind"], metadata["namespace"] = "RoleBinding", namespace()
            manifest["subjects"][0]["namespace"] = operator_namespace()
        if kind == "ConfigMap":
            manifest["data"] = {"prometheus.yml": yaml.safe_dump(_of_models_only(manifest["data"]))}
        yield manifest


def _of_models_only(data: dict[str, str]) -> dict[str, Any]:
    configuration: dict[str, Any] = yaml.safe_load(data["prometheus.yml"])
    (pods,) = (job for job in configuration["scrape_configs"] if job["job_name"] == "pods")
    pods["kubernetes_sd_configs"] = [{"role": "pod", "namespaces": {"names": [namespace()]}}]
    return configuration | {"scrape_configs": [pods]}
