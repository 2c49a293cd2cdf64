"""KEDA in the local cluster: its operator and its metrics server, as its own manifests install them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.kubectl import get, kubectl, wait_for
from tests.environment.place import CLUSTER
from tests.lifecycle.releases import ROOT

IMAGE = "outrider/keda:test"
HOME = "keda"
DOCKERFILE = "FROM scratch\nCOPY keda keda-adapter /\nUSER 65532:65532\n"
EXTERNAL_METRICS = "v1beta1.external.metrics.k8s.io"
ADAPTER = ROOT / "tests" / "environment" / "adapter" / "adapter.yaml"
START_SECONDS = 300.0
"""The metrics server waits for the certificates that the operator makes."""


@contextmanager
def installed() -> Iterator[None]:
    """In the block KEDA runs and serves external metrics; afterwards prometheus-adapter does again."""
    found = os.environ.get("OUTRIDER_KEDA")
    if found is None:
        pytest.fail("KEDA is not here: run `make test-keda`")
    if get("apiservice", EXTERNAL_METRICS) is None:
        pytest.skip("the cluster is somebody's, and may have a KEDA of its own")
    _load_image(Path(found))
    manifests = _manifests(Path(found))
    text = yaml.safe_dump_all(manifests)
    try:
        kubectl("delete", "apiservice", EXTERNAL_METRICS)
        kubectl("apply", "--server-side", "-f", "-", stdin=text)
        for name in ("keda-operator", "keda-metrics-apiserver"):
            kubectl("rollout", "status", f"deployment/{name}", "-n", HOME, f"--timeout={START_SECONDS:.0f}s")
        wait_for("external metrics by KEDA", _served, lambda seen: seen is not None, seconds=60)
        yield
    finally:
        kubectl("delete", "-f", "-", "--ignore-not-found", stdin=text)
        kubectl("apply", "--server-side", "-f", str(ADAPTER))


def _load_image(folder: Path) -> None:
    command = ["docker", "build", "--quiet", "--tag", IMAGE, "--file", "-", str(folder)]
    done = subprocess.run(command, input=DOCKERFILE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    load = ["kind", "load", "docker-image", "--name", CLUSTER, IMAGE]
    subprocess.run(load, capture_output=True, check=True)


def _manifests(folder: Path) -> list[dict[str, Any]]:
    """KEDA's own without its webhook, with the image that was built and less CPU than it asks for."""
    manifests = list(yaml.safe_load_all(kubectl("kustomize", str(folder / "config" / "minimal"))))
    for manifest in manifests:
        if manifest["kind"] == "Deployment":
            (container,) = manifest["spec"]["template"]["spec"]["containers"]
            container |= {"image": IMAGE, "imagePullPolicy": "Never"}
            container["resources"]["requests"] = {"cpu": "20m", "memory": "64Mi"}
    return manifests


def _served() -> dict[str, Any] | None:
    """The APIService, once the API server reaches KEDA's metrics server by it."""
    found = get("apiservice", EXTERNAL_METRICS)
    conditions = ((found or {}).get("status") or {}).get("conditions") or []
    available = any(each["type"] == "Available" and each["status"] == "True" for each in conditions)
    return found if available else None
