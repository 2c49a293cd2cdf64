"""The page that leads from a plain Deployment to live K in ten minutes, word for word.

The Deployment of the user runs real vLLM in an image without the plugin. Step 1 is shortened: images and
operator of this cluster exist already, so nothing is built, and Helm makes a dry run. A port that is taken
becomes a free one.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fresh_debian import link_programs
from tests.cluster.kubectl import Object, apply, kubectl, list_objects, namespace
from tests.cluster.models import model, read_example, speculation
from tests.cluster.outrider_cli import program
from tests.cluster.tutorial import Typist, a_port, a_shell, steps_of
from tests.environment.place import PLUGIN_IMAGE, STOCK_IMAGE
from tests.unit.docs.pages import ROOT, text_of

pytestmark = pytest.mark.engine("real", "starts")

NAME, DEPLOYMENT, PORT = "chat", "chat-vllm", 8080
K = 3
SECONDS = 600.0
"""Limit of the page, from the running Deployment to the first decision under load."""
PAGE = steps_of(text_of("docs/guide/ten-minutes.md"), heading="##")
SHORTENED = {
    "python3 operator/build.py": ": operator/build.py",
    "python3 -m engine_image.build": ": engine_image.build",
    "docker push": ": docker push",
    "uv tool install ./operator": "outrider version",
    "helm install outrider": "helm upgrade --install --dry-run=server outrider",
    "$REGISTRY/outrider-plugin:0.1.0": PLUGIN_IMAGE,
}


def a_deployment() -> dict[str, Any]:
    """The engine of the tiny example as a team without Outrider runs it."""
    (overlay,) = read_example()["spec"]["podTemplate"]["spec"]["containers"]
    drafts = {"method": "draft_model", "model": "/models/drafter", "num_speculative_tokens": K}
    flags = ["--model=/models/target", f"--served-model-name={NAME}", "--max-model-len=512"]
    flags += ["--max-num-seqs=8", "--dtype=float32", "--enforce-eager", "--block-size=32"]
    claims = {"engine-env": "/opt/vllm", "tiny-models": "/models"}
    container = {
        "name": "engine",
        "image": STOCK_IMAGE,
        "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"],
        "args": [*flags, f"--speculative-config={json.dumps(drafts)}"],
        "env": [*overlay["env"], {"name": "HOME", "value": "/tmp"}, {"name": "USER", "value": "team"}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 2},
        "resources": {"requests": {"cpu": "200m", "memory": "2Gi"}},
        "volumeMounts": [
            {"name": claim, "mountPath": path, "readOnly": True} for claim, path in claims.items()
        ],
    }
    spec = {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000},
        "containers": [container],
        "volumes": [
            {"name": claim, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
            for claim in claims
        ],
    }
    labels = {"app": DEPLOYMENT}
    scraped = {"scrape": "true", "port": "8000", "path": "/metrics"}
    annotations = {f"prometheus.io/{key}": value for key, value in scraped.items()}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": DEPLOYMENT, "namespace": namespace()},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec},
        },
    }


@pytest.fixture
def running() -> Iterator[None]:
    """The Deployment serves."""
    try:
        apply(a_deployment())
        kubectl("rollout", "status", f"deployment/{DEPLOYMENT}", "-n", namespace(), "--timeout=5m")
        yield
    finally:
        for kind, name in (("specmodel", NAME), ("deployment", DEPLOYMENT)):
            kubectl("delete", kind, name, "-n", namespace(), "--ignore-not-found", "--wait=false")


@pytest.fixture
def typist(running: None, tmp_path: Path) -> Iterator[Typist]:  # noqa: ARG001 - order
    """A user with the programs that the page lists."""
    tools = tmp_path / "bin"
    tools.mkdir()
    link_programs(["ca-certificates", "curl", "python3"], tools)
    for path in (program(), *(shutil.which(name) for name in ("kubectl", "helm"))):
        assert path is not None
        (tools / Path(path).name).symlink_to(path)
    found = {"HOME": str(tmp_path), "PATH": str(tools), "KUBECONFIG": os.environ["KUBECONFIG"]}
    with a_shell(ROOT, **found) as shell:
        yield Typist(shell, {**SHORTENED, str(PORT): str(a_port(PORT))}, PAGE)


def the_pod() -> Object:
    (found,) = (
        pod
        for pod in list_objects("pods", selector=f"app={DEPLOYMENT}")
        if "deletionTimestamp" not in pod["metadata"]
    )
    return found


def test_a_plain_deployment_is_tuned_within_ten_minutes(typist: Typist) -> None:
    assert sorted(PAGE) == ["1", "2", "3", "4", "5", "6"]
    began = time.monotonic()

    def takes(number: str) -> str:
        since = time.monotonic()
        printed = typist.takes(number)
        print(f"step {number}: {time.monotonic() - since:.0f} s")
        return printed

    assert "kind: Deployment" in takes("1")
    assert "PluginMissing" in takes("2")
    assert f"deployment.apps/{DEPLOYMENT} configured" in takes("3")
    pod = the_pod()
    assert speculation(model(NAME))["scheduleSummary"].split(":")[1].startswith(str(K))
    takes("4")
    explained = takes("5")
    assert time.monotonic() - began < SECONDS
    assert "Last decisions" in explained
    after = the_pod()
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert [one["restartCount"] for one in after["status"]["containerStatuses"]] == [0]
    assert f"deployment.apps/{DEPLOYMENT} rolled back" in takes("6")
