"""No private key and no token is in anything that operator and engines have written or show."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess

import pytest

from tests.cluster.annotations import override, take_back
from tests.cluster.api_server import read
from tests.cluster.commands import NAME, look
from tests.cluster.engines import ready_pods, signing_key
from tests.cluster.kubectl import kubectl, list_objects, namespace, operator_namespace, wait_for
from tests.cluster.models import in_force, speculation
from tests.cluster.operator_pod import LABEL
from tests.spellings import places

pytestmark = [pytest.mark.engine("twin", "starts")]

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
OBJECTS = "speculativemodels,configmaps,deployments,replicasets,pods,services,serviceaccounts,events"


def secrets() -> dict[str, bytes]:
    """Private keys of all models that there are, and the tokens of the operators, by whose they are."""
    stored = json.loads(kubectl("get", "secrets", "-n", namespace(), "-o", "json"))["items"]
    found = {
        f"{secret['metadata']['name']} {name}": base64.b64decode(value)
        for secret in stored
        for name, value in (secret.get("data") or {}).items()
    }
    for pod in operators():
        command = ("python3", "-c", f"print(open({TOKEN!r}).read())")
        token = kubectl("exec", pod, "-n", operator_namespace(), "--", *command)
        found[f"token of {pod}"] = token.strip().encode()
    return found


def operators() -> list[str]:
    pods = list_objects("pods", selector=LABEL, where=operator_namespace())
    return [pod["metadata"]["name"] for pod in pods]


def written() -> dict[str, str]:
    """Objects, logs, metrics, and the output of `outrider explain`, by where they are."""
    outrider = shutil.which("outrider")
    assert outrider is not None
    explained = subprocess.run(
        [outrider, "explain", NAME, "-n", namespace()], capture_output=True, text=True, check=True
    )
    texts = {"explain": explained.stdout + explained.stderr}
    for where in (namespace(), operator_namespace()):
        texts[f"objects of {where}"] = kubectl("get", OBJECTS, "-n", where, "-o", "json")
    for pod in operators():
        texts[f"log of {pod}"] = kubectl("logs", pod, "-n", operator_namespace())
        path = f"/api/v1/namespaces/{operator_namespace()}/pods/{pod}:8080/proxy/metrics"
        texts[f"metrics of {pod}"] = read(path)
    for pod in ready_pods(NAME):
        texts[f"log of {pod}"] = kubectl("logs", pod, "-n", namespace(), "--all-containers")
        texts[f"metrics of {pod}"] = read(f"/api/v1/namespaces/{namespace()}/pods/{pod}:8000/proxy/metrics")
    return texts


def test_secrets_stay_where_they_are() -> None:
    table = speculation(look())["scheduleSummary"]
    override(NAME, "*:1", seconds=60)
    wait_for("the override is in force", look, in_force("*:1"), seconds=60)
    take_back(NAME)
    wait_for("the table of before is", look, in_force(table), seconds=60)
    known, texts = secrets(), written()
    public = signing_key(NAME).public_pem.encode()

    assert len(known) >= 2
    assert {owner: found for owner, secret in known.items() if (found := places(secret, texts))} == {}
    # The search finds what is there.
    assert "objects of default" in places(public, texts)
