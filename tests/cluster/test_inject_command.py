"""A Deployment of someone else's engine: `outrider inject` prints it with the plugin, and K changes live."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.engine.signing import SigningKey
from tests.cluster.engines import SCHEDULE, STATE, ask_by, name_of
from tests.cluster.kubectl import Object, apply, condition, kubectl, list_objects, namespace, wait_for
from tests.cluster.models import read_example
from tests.cluster.outrider_cli import outrider
from tests.environment.place import PLUGIN_IMAGE, STOCK_IMAGE

pytestmark = pytest.mark.engine("real", "injected")

NAME = "injected-deployment"
K = 3
PUSH = {"term": 1, "epoch": 1, "leaseSeconds": 60, "schedule": [{"numSpeculativeTokens": 1}]}
KEY_SECONDS = 150.0
"""The kubelet looks for a changed ConfigMap once a minute, and may take twice as long."""


def a_deployment() -> dict[str, Any]:
    """The engine of the tiny example as a team without Outrider runs it."""
    (overlay,) = read_example()["spec"]["podTemplate"]["spec"]["containers"]
    drafts = {"method": "draft_model", "model": "/models/drafter", "num_speculative_tokens": K}
    flags = ["--model=/models/target", "--served-model-name=tiny", "--max-model-len=512", "--max-num-seqs=8"]
    flags += ["--dtype=float32", "--enforce-eager", "--block-size=32"]
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
    labels = {"app": NAME}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": namespace()},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Object]:
    """Its pod, ready, with the plugin that the command added."""
    file = tmp_path_factory.mktemp("inject") / "deployment.json"
    file.write_text(json.dumps(a_deployment()))
    printed = injected(file)
    try:
        kubectl("apply", "-f", "-", stdin=printed)
        yield wait_for("a ready pod", the_pod, is_ready, seconds=300) or {}
    finally:
        kubectl("delete", "deployment", NAME, "-n", namespace(), "--ignore-not-found")
        kubectl("delete", "configmap", f"{NAME}-schedule", "-n", namespace(), "--ignore-not-found")


def injected(file: Path) -> str:
    """What the command prints."""
    done = outrider("inject", "-f", str(file), "--plugin-image", PLUGIN_IMAGE)
    assert done.code == 0, done.err
    assert f"Deployment {NAME}, for SpeculativeModel {NAME}:" in done.err
    return done.out


def the_pod() -> Object | None:
    found = list_objects("pods", selector=f"app={NAME}")
    return found[0] if found else None


def is_ready(seen: Object | None) -> bool:
    found = condition(seen, "Ready")
    return found is not None and found["status"] == "True"


def test_the_engine_serves_as_its_flags_say_and_accepts_the_key_that_comes_later(pod: Object) -> None:
    key, name, uid = SigningKey.generate(), name_of(pod), pod["metadata"]["uid"]

    def state() -> Object:
        return ask_by(key, name, uid=uid, method="GET", path=STATE)

    assert state()["error"]["reason"] == "Unauthorized"
    apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{NAME}-schedule", "namespace": namespace()},
            "data": {"control-key.pub": key.public_pem},
        }
    )
    seen = wait_for("the key", state, lambda seen: "schedule" in (seen or {}), seconds=KEY_SECONDS)
    assert seen is not None
    assert seen["liveTuning"] == {"possible": True, "reason": None}
    assert (seen["method"], seen["capturedK"]) == ("draft_model", [0, 1, 2, 3])
    assert seen["schedule"][0]["numSpeculativeTokens"] == K

    pushed = ask_by(key, name, uid=uid, method="PUT", path=SCHEDULE, body=PUSH)
    assert "error" not in pushed
    assert state()["schedule"] == PUSH["schedule"]
    after = the_pod()
    assert after is not None
    assert [one["restartCount"] for one in after["status"]["containerStatuses"]] == [0]
