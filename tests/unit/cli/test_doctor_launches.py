"""``outrider doctor``: what keeps engine pods from starting, and what to do about it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outrider.cli.doctor.evidence import Place, Toleration
from outrider.cli.doctor.findings import Level
from outrider.cli.doctor.launch_checks import launch_findings
from outrider.cli.main import app
from tests.unit.cli.doctor_places import A_LAUNCH, A_PLACE, GPU, TAINT, of, on, tolerating
from tests.unit.cli.kubernetes import Kubernetes, a_list, serving
from tests.unit.controller.factories import a_raw_model


def test_a_cluster_where_pods_can_start_has_one_good_finding() -> None:
    (found,) = launch_findings(A_PLACE)
    assert found.level is Level.FINE


@pytest.mark.parametrize(
    ("place", "level", "message", "action"),
    [
        (
            on(taints=(TAINT,)),
            Level.BAD,
            "does not tolerate the taint dedicated:NoSchedule",
            "spec.podTemplate.spec.tolerations: [{key: dedicated",
        ),
        (on(allocatable={}), Level.BAD, "names no RuntimeClass", "runtimeClassName: nvidia"),
        (on(driver=550), Level.BAD, "driver 550; vLLM 0.33.0 needs 580", "update the driver"),
        (on(architecture="arm64"), Level.WARNING, "arm64 processors", "--platform linux/arm64"),
        (on(allocatable={GPU: 2}), Level.WARNING, f"no {GPU} is free for it", "maxSurge: 0"),
        (of(downloads=True), Level.WARNING, "progressDeadline is 20 min", "spec.cache"),
        (
            replace(A_PLACE, missing_secrets=frozenset({("default", "registry")})),
            Level.BAD,
            "the pull secret registry is not in its namespace",
            "kubectl create secret docker-registry registry -n default",
        ),
        (replace(A_PLACE, openshift=True), Level.BAD, "asks for user 1000", "podUser=Platform"),
        (
            replace(A_PLACE, ignored_pod_monitors=("outrider-system/outrider-engines",)),
            Level.BAD,
            "no Prometheus takes outrider-system/outrider-engines",
            "podMonitor.labels.release",
        ),
        (replace(A_PLACE, refused=("secrets is forbidden",)), Level.UNSEEN, "secrets is forbidden", ""),
    ],
)
def test_a_fault_is_named_with_what_to_do(place: Place, level: Level, message: str, action: str) -> None:
    (found,) = launch_findings(place)
    assert found.level is level
    assert message in found.message
    assert action in found.action


@pytest.mark.parametrize(
    "place",
    [
        tolerating(Toleration("dedicated", "Exists", "", "")),
        tolerating(Toleration("dedicated", "Equal", "gpu", "NoSchedule")),
        tolerating(Toleration("", "Exists", "", "")),
        replace(on(taints=(TAINT,)), launches=(replace(A_LAUNCH, scheduled=True),)),
        replace(on(allocatable={}), launches=(replace(A_LAUNCH, runtime_class="nvidia"),)),
        replace(on(driver=550), launches=(replace(A_LAUNCH, version="0.32.0"),)),
        on(driver=None),
        replace(on(allocatable={GPU: 2}), launches=(replace(A_LAUNCH, surges=False),)),
        of(downloads=True, deadline_seconds=3600),
        replace(A_PLACE, openshift=True, launches=(replace(A_LAUNCH, user=None),)),
    ],
)
def test_what_is_in_order_is_no_fault(place: Place) -> None:
    assert [found.level for found in launch_findings(place)] == [Level.FINE]


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration("dedicated", "Equal", "cpu", "NoSchedule"),
        Toleration("dedicated", "Exists", "", "NoExecute"),
        Toleration("other", "Exists", "", ""),
        Toleration("", "Equal", "", ""),
    ],
)
def test_a_toleration_of_another_taint_does_not_help(toleration: Toleration) -> None:
    assert [found.level for found in launch_findings(tolerating(toleration))] == [Level.BAD]


def a_deployment(**pod: Any) -> dict[str, Any]:
    engine = {"name": "engine", "resources": {"limits": {GPU: "1"}}}
    spec = {"containers": [engine], "securityContext": {"runAsUser": 1000}, **pod}
    return {
        "metadata": {"name": "m", "namespace": "default", "labels": {"outrider.dev/model": "m"}},
        "spec": {
            "replicas": 1,
            "strategy": {"rollingUpdate": {"maxSurge": 1}},
            "template": {"spec": spec},
        },
    }


def test_eight_faults_of_one_cluster_are_found(tmp_path: Path) -> None:
    """Taint, driver and processor of its nodes, free GPU, deadline, pull secret, OpenShift, PodMonitor."""
    node = {
        "metadata": {
            "name": "gpu-1",
            "labels": {"kubernetes.io/arch": "arm64", "nvidia.com/cuda.driver-version.major": "550"},
        },
        "spec": {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]},
        "status": {"allocatable": {GPU: "1"}},
    }
    tolerates = [{"key": "dedicated", "operator": "Exists"}]
    group = "/apis/monitoring.coreos.com/v1"
    monitor = {
        "metadata": {"name": "outrider", "namespace": "outrider-system", "labels": {"a": "b"}},
        "spec": {"selector": {"matchExpressions": [{"key": "outrider.dev/model", "operator": "Exists"}]}},
    }
    prometheus = {
        "metadata": {"name": "p", "namespace": "monitoring"},
        "spec": {"podMonitorSelector": {"matchLabels": {"release": "kube-prometheus-stack"}}},
    }
    model = a_raw_model("m")
    model["spec"]["engine"] = {"version": "0.33.0"}
    model["spec"]["model"] = {"uri": "hf://org/m"}
    second = a_deployment()
    second["metadata"] = {"name": "n", "namespace": "default", "labels": {"outrider.dev/model": "n"}}
    second["spec"]["replicas"] = 0
    cluster = Kubernetes(
        {
            "/api/v1/nodes": a_list(node),
            "/api/v1/pods": a_list(),
            "/apis/apps/v1/deployments": a_list(
                a_deployment(tolerations=tolerates, imagePullSecrets=[{"name": "registry"}]), second
            ),
            "/apis/outrider.dev/v1alpha1/speculativemodels": a_list(model),
            f"{group}/podmonitors": a_list(monitor),
            f"{group}/prometheuses": a_list(prometheus),
            "/apis/security.openshift.io/v1": {"resources": [{"name": "securitycontextconstraints"}]},
        }
    )
    with serving(cluster, tmp_path) as environment:
        said = CliRunner().invoke(app, ["doctor", "--json"], env=environment).stdout
    found = [each["message"] for each in json.loads(said)["findings"] if each["level"] in ("bad", "warning")]
    for fault in (
        "default/n does not tolerate the taint dedicated",
        "has NVIDIA driver 550",
        "arm64 processors",
        f"no {GPU} is free for it",
        "may count as failed while it downloads",
        "the pull secret registry is not in its namespace",
        "asks for user 1000, which OpenShift",
        "no Prometheus takes outrider-system/outrider",
    ):
        assert any(fault in message for message in found), fault
