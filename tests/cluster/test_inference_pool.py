"""An InferencePool of the real CRD follows its model, and no gateway runs. In this order."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.kubectl import Object, apply, get, has_condition, kubectl, patch, wait_for
from tests.cluster.models import BASE, Manifest, deploying, model
from tests.environment.place import command_environment, locate

pytestmark = pytest.mark.engine("none", "selected")

NAME, PICKER = "pooled", "pooled-epp"
EXTENSION = "sigs.k8s.io/gateway-api-inference-extension@v1.5.0"
POOLS = "inferencepools.inference.networking.k8s.io"
LOOKS_AGAIN = 60.0
"""The operator looks every 30 s, and the machine may be busy."""


@pytest.fixture(scope="module")
def definition() -> Path:
    """The CRD of the Gateway API Inference Extension, out of its Go module."""
    command = ["go", "mod", "download", "-json", EXTENSION]
    environment = command_environment(locate(os.environ), os.environ)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    folder = Path(json.loads(done.stdout)["Dir"])
    return folder / "config" / "crd" / "bases" / "inference.networking.k8s.io_inferencepools.yaml"


@pytest.fixture(scope="module", autouse=True)
def a_model() -> Iterator[None]:
    """A model without replicas that asks for a pool, in a cluster without the kind."""
    manifest: Manifest = json.loads(json.dumps(BASE))
    manifest["spec"] |= {"replicas": 0, "inferencePool": {"endpointPicker": {"service": PICKER}}}
    with deploying() as deploy:
        deploy(manifest, NAME)
        try:
            yield
        finally:
            kubectl("delete", "service", PICKER, "-n", "default", "--ignore-not-found")
            kubectl("delete", "crd", POOLS, "--ignore-not-found")


def look() -> Object | None:
    return model(NAME)


def says(reason: str) -> None:
    """Wait until the model is degraded for this reason."""
    wait_for(reason, look, lambda seen: has_condition(seen, "Degraded", "True", reason), seconds=LOOKS_AGAIN)


def the_pool() -> Object:
    found: Object = json.loads(kubectl("get", POOLS, NAME, "-n", "default", "-o", "json"))
    return found


def test_without_the_kind_the_engines_are_planned_and_the_condition_says_what_to_install() -> None:
    says("InferencePoolMissing")
    assert get("deployment", NAME) is not None


def test_once_the_kind_is_there_a_pool_selects_the_engines_at_their_port(definition: Path) -> None:
    kubectl("apply", "--server-side", "-f", str(definition))
    says("EndpointPickerMissing")
    spec = the_pool()["spec"]
    assert spec["targetPorts"] == [{"number": 8000}]
    assert spec["endpointPickerRef"]["name"] == PICKER
    engines = get("deployment", NAME)
    assert engines is not None
    assert (
        spec["selector"]["matchLabels"].items() <= engines["spec"]["template"]["metadata"]["labels"].items()
    )


def test_what_a_gateway_answers_in_the_pools_status_is_repeated() -> None:
    port = {"name": "grpc", "port": 9002}
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [port]}}
    apply({**service, "metadata": {"name": PICKER, "namespace": "default"}})
    refused = {
        "type": "ResolvedRefs",
        "status": "False",
        "reason": "InvalidExtensionRef",
        "message": "the picker has no endpoints",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    parents = [{"parentRef": {"name": "edge"}, "conditions": [refused]}]
    change = json.dumps({"status": {"parents": parents}})
    kubectl("patch", POOLS, NAME, "-n", "default", "--subresource=status", "--type=merge", "-p", change)
    says("InferencePoolNotAccepted")


def test_the_pool_goes_with_the_field() -> None:
    patch("specmodel", NAME, {"spec": {"inferencePool": None}})
    wait_for(
        "the pool is gone",
        lambda: {"status": kubectl("get", POOLS, "-n", "default", "-o", "name")},
        lambda seen: (seen or {})["status"] == "",
        seconds=LOOKS_AGAIN,
    )
