"""The page that leads from a plain Deployment to live K: its Deployment, and what is typed.

The Deployment of the user runs real vLLM in an image without the plugin.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.fresh_debian import link_programs
from tests.cluster.kubectl import Object, apply, kubectl, list_objects, namespace
from tests.cluster.models import model, read_example, speculation
from tests.cluster.tutorial import Typist, a_port, a_shell, steps_of
from tests.environment.place import STOCK_IMAGE
from tests.unit.docs.pages import ROOT, text_of

NAME, DEPLOYMENT, PORT = "chat", "chat-vllm", 8080
K = 3
SECONDS = 600.0
"""Limit of the page, from the running Deployment to the first decision under load: steps 1 to 5."""
LIVE = ("1", "2", "3", "4", "5")
PAGE = steps_of(text_of("docs/guide/ten-minutes.md"), heading="##")


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


@contextmanager
def running() -> Iterator[None]:
    """In the block the Deployment serves."""
    try:
        apply(a_deployment())
        kubectl("rollout", "status", f"deployment/{DEPLOYMENT}", "-n", namespace(), "--timeout=5m")
        yield
    finally:
        for kind, name in (("specmodel", NAME), ("deployment", DEPLOYMENT)):
            kubectl("delete", kind, name, "-n", namespace(), "--ignore-not-found", "--wait=false")


@contextmanager
def typing(
    home: Path, programs: Mapping[str, str | None], instead: Mapping[str, str], **variables: str
) -> Iterator[Typist]:
    """A user with what the page lists. programs: those beside Debian's, name -> path.

    instead: what is typed in place of words of the page. A port that is taken becomes a free one.
    """
    tools = home / "bin"
    tools.mkdir()
    link_programs(["ca-certificates", "curl", "python3-minimal"], tools)
    for name, path in programs.items():
        assert path is not None, f"{name} is not here"
        (tools / name).symlink_to(path)
    path_of_user = f"{tools}:{home}/.local/bin"
    user = {"HOME": str(home), "PATH": path_of_user, "KUBECONFIG": os.environ["KUBECONFIG"]}
    with a_shell(ROOT, **user, **variables) as shell:
        yield Typist(shell, {**instead, str(PORT): str(a_port(PORT))}, PAGE)


def found_on_path(*names: str) -> Mapping[str, str | None]:
    """Programs of this machine."""
    return {name: shutil.which(name) for name in names}


def type_the_page(typist: Typist) -> dict[str, float]:
    """Every step, with what it has to bring. Returns the seconds of each.

    Raises:
        AssertionError: a command failed, or did not bring it.
    """
    assert sorted(PAGE) == ["1", "2", "3", "4", "5", "6"]
    seconds: dict[str, float] = {}

    def takes(number: str) -> str:
        since = time.monotonic()
        printed = typist.takes(number)
        seconds[number] = time.monotonic() - since
        print(f"step {number}: {seconds[number]:.0f} s")
        return printed

    takes("1")
    assert "PluginMissing" in takes("2")
    assert f"deployment.apps/{DEPLOYMENT} configured" in takes("3")
    pod = the_pod()
    assert speculation(model(NAME))["scheduleSummary"].split(":")[1].startswith(str(K))
    takes("4")
    assert "Last decisions" in takes("5")
    after = the_pod()
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert [one["restartCount"] for one in after["status"]["containerStatuses"]] == [0]
    assert f"deployment.apps/{DEPLOYMENT} rolled back" in takes("6")
    return seconds


def the_pod() -> Object:
    (found,) = (
        pod
        for pod in list_objects("pods", selector=f"app={DEPLOYMENT}")
        if "deletionTimestamp" not in pod["metadata"]
    )
    return found
