"""No private key and no token is in anything that operator and engines have written or show."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess

import pytest

from tests.cluster.annotations import override, take_back
from tests.cluster.engines import ready_pods, signing_key
from tests.cluster.kubectl import kubectl, list_objects, wait_for
from tests.cluster.models import deploying, in_force, model, read_twin
from tests.cluster.operator_pod import LABEL, NAMESPACE
from tests.spellings import places

pytestmark = [pytest.mark.engine("twin", "starts")]

NAME = "discreet"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
OBJECTS = "speculativemodels,configmaps,deployments,replicasets,pods,services,serviceaccounts,events"


def secrets() -> dict[str, bytes]:
    """Private keys of all models that there are, and the tokens of the operators, by whose they are."""
    stored = json.loads(kubectl("get", "secrets", "-n", "default", "-o", "json"))["items"]
    found = {
        f"{secret['metadata']['name']} {name}": base64.b64decode(value)
        for secret in stored
        for name, value in (secret.get("data") or {}).items()
    }
    for pod in operators():
        token = kubectl("exec", pod, "-n", NAMESPACE, "--", "python3", "-c", f"print(open({TOKEN!r}).read())")
        found[f"token of {pod}"] = token.strip().encode()
    return found


def operators() -> list[str]:
    return [pod["metadata"]["name"] for pod in list_objects("pods", selector=LABEL, namespace=NAMESPACE)]


def written() -> dict[str, str]:
    """Objects, logs, metrics, and what `outrider explain` tells, by where it is."""
    outrider = shutil.which("outrider")
    assert outrider is not None
    explained = subprocess.run(
        [outrider, "explain", NAME, "-n", "default"], capture_output=True, text=True, check=True
    )
    texts = {"explain": explained.stdout + explained.stderr}
    for namespace in ("default", NAMESPACE):
        texts[f"objects of {namespace}"] = kubectl("get", OBJECTS, "-n", namespace, "-o", "json")
    for pod in operators():
        texts[f"log of {pod}"] = kubectl("logs", pod, "-n", NAMESPACE)
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:8080/proxy/metrics"
        texts[f"metrics of {pod}"] = kubectl("get", "--raw", path)
    for pod in ready_pods(NAME):
        texts[f"log of {pod}"] = kubectl("logs", pod, "-n", "default", "--all-containers")
        texts[f"metrics of {pod}"] = kubectl(
            "get", "--raw", f"/api/v1/namespaces/default/pods/{pod}:8000/proxy/metrics"
        )
    return texts


def test_secrets_stay_where_they_are() -> None:
    with deploying() as deploy:
        deploy(read_twin(), NAME)
        wait_for(
            "a table is in force", lambda: model(NAME), lambda seen: bool(in_any_table(seen)), seconds=180
        )
        override(NAME, "*:1", seconds=60)
        wait_for("the override is", lambda: model(NAME), in_force("*:1"), seconds=60)
        take_back(NAME)
        known, texts = secrets(), written()
        public = signing_key(NAME).public_pem.encode()

    assert len(known) >= 2
    assert {owner: found for owner, secret in known.items() if (found := places(secret, texts))} == {}
    # The search finds what is there.
    assert "objects of default" in places(public, texts)


def in_any_table(seen: dict[str, object] | None) -> bool:
    """Whether the engines confirmed one."""
    status = (seen or {}).get("status")
    return isinstance(status, dict) and bool(status.get("speculation", {}).get("appliedReplicas"))
