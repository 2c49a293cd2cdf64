"""Evidence of a cluster in which all is well, and an API server for ``outrider doctor``."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from typer.testing import CliRunner

from outrider import __version__
from outrider.api.crd import custom_resource_definition
from outrider.cli.doctor.checks import findings
from outrider.cli.doctor.evidence import (
    EnginePod,
    Evidence,
    Metrics,
    NodeClock,
    OfOperator,
    Operator,
    Target,
)
from outrider.cli.doctor.findings import Finding, Level
from outrider.cli.main import app
from outrider.cluster.installation import Claim, Installation
from outrider.controller.settings import Settings
from tests.unit.cli.doctor_places import A_PLACE
from tests.unit.cli.kubernetes import Body, Kubernetes, a_list, serving
from tests.unit.controller.factories import a_raw_model

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
POD = EnginePod("default", "m-1", "m", live=True)
KEY = ("default", "m-1")
PROXY = "/api/v1/namespaces/monitoring/services/http:prometheus:9090/proxy/api/v1/query"

DEFINITION = custom_resource_definition()

REIGN = Installation(
    namespace="outrider-system",
    claim=Claim(account="outrider"),
    holder="outrider-1",
    term=7,
    reign_began=NOW,
    renewed=NOW - timedelta(seconds=2),
    lasts=timedelta(seconds=15),
)
OPERATOR = Operator("outrider-system", "outrider", __version__, 1, 1, Settings())
SERIES = Metrics(frozenset({Target("default", "m-1", "m", "pods")}), {KEY: 12.0}, {KEY: True})
WELL = Evidence(
    now=NOW,
    crd=DEFINITION,
    operators=(OPERATOR,),
    terms=(REIGN,),
    missing_of_caller=(),
    missing_of_operators=(OfOperator(OPERATOR, {"": ()}),),
    metrics=(OfOperator(OPERATOR, SERIES),),
    engines=(POD,),
    offered={"nvidia.com/gpu": 8},
    wanted={"nvidia.com/gpu": 2},
    place=A_PLACE,
    clocks=(NodeClock("n", NOW + timedelta(seconds=0.4), NOW),),
)


def not_fine(evidence: Evidence) -> list[Finding]:
    return [found for found in findings(evidence) if found.level is not Level.FINE]


def an_operator(namespace: str = "outrider-system", name: str = "outrider", **variables: str) -> Body:
    """Its Deployment, as the chart writes it."""
    env = [{"name": each, "value": value} for each, value in variables.items()]
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {"app.kubernetes.io/version": __version__},
        },
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"env": env}]}}},
        "status": {"readyReplicas": 1},
    }


def a_cluster() -> Kubernetes:
    """One operator, one engine, one node with a GPU, and a Prometheus that knows the engine."""
    engine = {
        "metadata": {"namespace": "team-a", "name": "m-1", "labels": {"outrider.dev/model": "m"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    now = datetime.now(UTC)
    kubelet = {"time": now.isoformat(timespec="seconds"), "fieldsV1": {"f:spec": {"f:renewTime": {}}}}
    somebody = {"time": "2099-01-01T12:00:00Z", "fieldsV1": {"f:metadata": {}}}
    lease = {
        "metadata": {"name": "n", "managedFields": [kubelet, somebody]},
        "spec": {"renewTime": now.isoformat()},
    }
    series = {"namespace": "team-a", "pod": "m-1", "outrider_dev_model": "m", "job": "pods"}
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/speculativemodels.outrider.dev"
    return Kubernetes(
        {
            definition: DEFINITION,
            "/apis/apps/v1/deployments": a_list(an_operator(OUTRIDER_WATCH_NAMESPACES="team-a team-b")),
            "/apis/coordination.k8s.io/v1/leases": a_list(),
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases": a_list(lease),
            "/apis/outrider.dev/v1alpha1/speculativemodels": a_list(a_raw_model("m", namespace="team-a")),
            "/api/v1/pods": a_list(engine),
            "/api/v1/nodes": a_list(
                {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "nvidia.com/gpu": "1"}}}
            ),
            PROXY: {"status": "success", "data": {"result": [{"metric": series, "value": [1.0, "12"]}]}},
        }
    )


def told(cluster: Kubernetes, tmp_path: Path) -> dict[str, list[str]]:
    """Levels and messages by subject."""
    with serving(cluster, tmp_path) as environment:
        result = CliRunner().invoke(app, ["doctor", "--json"], env=environment)
    found: dict[str, list[str]] = {}
    for each in json.loads(result.stdout)["findings"]:
        found.setdefault(each["subject"], []).append(f"{each['level']}: {each['message']}")
    return found
