"""Pods of other owners are tuned while they run: of a Deployment, and in the shapes of KServe and llm-d."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from examples.kit.options import CLIENT_IMAGE
from outrider.api.resource import SpeculativeModel
from outrider.plan import ControlKeys, PlanSettings, plan
from outrider.plan.names import PLUGIN_ANNOTATION, PORT_NAME, schedule_config_map
from outrider_protocol.environment import STATIC_SCHEDULE_VARIABLE
from tests.cluster.annotations import override, take_back
from tests.cluster.kubectl import (
    KubectlError,
    Object,
    apply,
    has_condition,
    kubectl,
    list_objects,
    namespace,
    patch,
    wait_for,
)
from tests.cluster.models import Manifest, deploying, in_force, model, read_twin, speculation
from tests.cluster.sending import sending_to

pytestmark = pytest.mark.engine("twin", "starts")

STARTED = 300.0
TICKS = 45.0
TUNED_SECONDS = 480.0
STATIC = "60:5,61:3,62:2,63:1,*:0"
"""What the engines were launched with: each candidate once, and the largest for nearly every batch."""


@dataclass(frozen=True)
class Shape:
    """Pods as an owner renders them. init: containers that run beside the engine."""

    name: str
    labels: dict[str, str]
    container: str
    port: int
    target: dict[str, Any]
    init: list[dict[str, Any]] = field(default_factory=list)


DEPLOYMENT = Shape(
    "running-plain",
    {"app": "running-plain"},
    "vllm",
    8000,
    {"workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "running-plain"}},
)
_KSERVE = {"serving.kserve.io/inferenceservice": "running-kserve", "component": "predictor"}
KSERVE = Shape(
    "running-kserve",
    {**_KSERVE, "app": "isvc.running-kserve-predictor"},
    "kserve-container",
    8080,
    {"selector": {"matchLabels": _KSERVE}, "port": 8080},
)
_LLM_D = {"llm-d.ai/inferenceServing": "true", "llm-d.ai/model": "running-llm-d", "llm-d.ai/role": "decode"}
LLM_D = Shape(
    "running-llm-d",
    _LLM_D,
    "vllm",
    8200,
    {"selector": {"matchLabels": _LLM_D}, "port": 8200},
    [
        {
            "name": "routing-proxy",
            "image": CLIENT_IMAGE,
            "command": ["python3", "-m", "http.server", "8000"],
            "restartPolicy": "Always",
            "ports": [{"containerPort": 8000}],
            "resources": {"requests": {"cpu": "1m", "memory": "16Mi"}},
        }
    ],
)


def deployment(shape: Shape) -> Manifest:
    """The Deployment of an owner: a simulated engine with the plugin and the volume of its key."""
    twin = SpeculativeModel.model_validate(read_twin())
    planned = plan(twin, settings=PlanSettings(), keys=ControlKeys("", ""))
    made: Any = planned.child("Deployment")
    pod = copy.deepcopy(made["spec"]["template"]["spec"])
    del pod["serviceAccountName"]
    (engine,) = pod["containers"]
    engine["name"] = shape.container
    engine["args"] = [word.replace("--port=8000", f"--port={shape.port}") for word in engine["args"]]
    engine["ports"] = [{"name": PORT_NAME, "containerPort": shape.port}]
    engine["env"] = [each for each in engine["env"] if each["name"] != STATIC_SCHEDULE_VARIABLE]
    for volume in pod["volumes"]:
        if volume["name"] == "schedule":
            volume["configMap"] = {"name": schedule_config_map(shape.name), "optional": True}
    pod["initContainers"] = shape.init
    scraped = {"scrape": "true", "port": str(shape.port), "path": "/metrics"}
    annotations = {f"prometheus.io/{key}": value for key, value in scraped.items()}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": shape.name, "namespace": namespace()},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": shape.labels},
            "template": {
                "metadata": {
                    "labels": shape.labels,
                    "annotations": {**annotations, PLUGIN_ANNOTATION: shape.name},
                },
                "spec": pod,
            },
        },
    }


def service(shape: Shape) -> Manifest:
    """The Service of the owner."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": shape.name, "namespace": namespace()},
        "spec": {"selector": shape.labels, "ports": [{"port": 80, "targetPort": PORT_NAME}]},
    }


def target(shape: Shape) -> Manifest:
    """The SpeculativeModel: nothing but the pods."""
    return {
        "apiVersion": "outrider.dev/v1alpha1",
        "kind": "SpeculativeModel",
        "metadata": {"name": shape.name, "namespace": namespace()},
        "spec": {"target": shape.target},
    }


@contextmanager
def running(shape: Shape, *objects: Manifest) -> Iterator[None]:
    """The objects of an owner, and a SpeculativeModel beside them."""
    with deploying() as deploy:
        for owned in objects:
            apply(owned)
        deploy(target(shape), shape.name)
        try:
            yield
        finally:
            for owned in objects:
                name = owned["metadata"]["name"]
                kubectl(
                    "delete", owned["kind"], name, "-n", namespace(), "--ignore-not-found", "--wait=false"
                )


def pods(shape: Shape) -> dict[str, int]:
    """UID of each pod, and the restarts of its containers."""
    selector = ",".join(f"{key}={value}" for key, value in shape.labels.items())
    found = list_objects("pods", selector=selector)
    return {
        pod["metadata"]["uid"]: sum(each["restartCount"] for each in pod["status"]["containerStatuses"])
        for pod in found
    }


def is_tuned(shape: Shape) -> Object | None:
    """Wait until the engine has confirmed the first schedule."""
    return wait_for("a schedule", lambda: model(shape.name), in_force(STATIC, replicas=1), seconds=STARTED)


@pytest.mark.parametrize("shape", [KSERVE, LLM_D], ids=lambda shape: shape.name)
def test_pods_in_the_shape_of_others_are_tuned_live(shape: Shape) -> None:
    with running(shape, deployment(shape)):
        is_tuned(shape)
        before = pods(shape)
        override(shape.name, "*:1", seconds=120)
        wait_for("the override is in force", lambda: model(shape.name), in_force("*:1"), seconds=TICKS)
        take_back(shape.name)
        assert pods(shape) == before
        assert set(before.values()) == {0}


@pytest.mark.asyncio
async def test_a_deployment_is_tuned_by_its_load_and_never_restarted() -> None:
    shape = DEPLOYMENT
    with running(shape, deployment(shape), service(shape)):
        is_tuned(shape)
        before = pods(shape)
        slo = {"interTokenLatency": {"limit": "10s"}}
        patch("specmodel", shape.name, {"spec": {"target": {"tuning": {"slo": slo}}}})
        served = {**target(shape), "spec": {"model": {"servedName": "simulated-llama-8b"}}}
        async with sending_to(served) as sender:
            await sender.reached()
            sent = await sender.send_until(lambda: bool(decisions(shape)), 8, TUNED_SECONDS)
        assert (sent.failed, sent.errors) == (0, ())
        assert decisions(shape)
        for kind in ("ActuationConverged", "MetricsAvailable", "SLOKept"):
            wait_until_true(shape, kind)
        wait_for(
            "a speedup",
            lambda: model(shape.name),
            lambda found: "speedup" in speculation(found),
            seconds=TICKS,
        )
        assert pods(shape) == before
        assert set(before.values()) == {0}
        refuses_what_is_the_owners(shape)


def wait_until_true(shape: Shape, kind: str) -> None:
    """A late scrape or answer of the pod makes a condition False for a tick."""
    wait_for(kind, lambda: model(shape.name), lambda found: has_condition(found, kind, "True"), seconds=TICKS)


def decisions(shape: Shape) -> list[Object]:
    """Changes of the schedule, newest first."""
    found: list[Object] = ((model(shape.name) or {}).get("status") or {}).get("decisions") or []
    return found


def refuses_what_is_the_owners(shape: Shape) -> None:
    """A target is not scaled, and does not become a model."""
    with pytest.raises(KubectlError, match="Outrider does not scale"):
        kubectl("scale", "specmodel", shape.name, "-n", namespace(), "--replicas=3")
    other = {"target": None, "model": {"uri": "hf://a/b"}, "speculation": {"method": "none"}}
    with pytest.raises(KubectlError, match="does not turn a model into a target"):
        patch("specmodel", shape.name, {"spec": other})


@pytest.mark.engine("none", "starts")
def test_a_pod_without_the_plugin_is_named_and_serves() -> None:
    labels = {"app": "running-bare"}
    shape = Shape("running-bare", labels, "web", 8000, {"selector": {"matchLabels": labels}})
    bare = {
        **LLM_D.init[0],
        "name": shape.container,
        "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1},
    }
    del bare["restartPolicy"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": shape.name, "namespace": namespace(), "labels": shape.labels},
        "spec": {"containers": [bare]},
    }
    with running(shape, pod):
        seen = wait_for(
            "PluginMissing",
            lambda: model(shape.name),
            lambda found: has_condition(found, "Degraded", "True", "PluginMissing"),
            seconds=TICKS,
        )
        assert has_condition(seen, "Ready", "True", "Serving")
        assert shape.name in str(seen)
