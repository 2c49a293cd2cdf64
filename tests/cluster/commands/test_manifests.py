"""What ``outrider plan`` proposes and ``outrider render`` prints, against the cluster that would get it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.commands import NAME, look
from tests.cluster.kubectl import Object, get, kubectl
from tests.cluster.outrider_cli import outrider

pytestmark = [pytest.mark.engine("twin", "starts")]

OF_THE_CLUSTER = {"resourceVersion", "uid", "managedFields", "creationTimestamp", "generation"}


def test_the_api_server_admits_a_proposed_manifest() -> None:
    planned = outrider("plan", "--model", "Qwen3-8B", "--gpu", "H100", "--task", "chat", "--manifest")
    assert (planned.code, planned.err) == (0, "")
    admitted = kubectl("create", "--dry-run=server", "-f", "-", "-o", "name", stdin=planned.out)
    assert admitted.strip() == "speculativemodel.outrider.dev/qwen3-8b"


def test_the_engines_run_with_what_render_prints(tmp_path: Path) -> None:
    """The manifest as the API server keeps it, with every default."""
    file = tmp_path / "model.json"
    file.write_text(json.dumps(as_applied(look())))
    rendered = outrider("render", str(file))
    assert (rendered.code, rendered.err) == (0, "")
    children = [child for child in yaml.safe_load_all(rendered.out) if child["kind"] == "Deployment"]
    (found,) = [container_of(child) for child in children]
    live = container_of(get("deployments", children[0]["metadata"]["name"]))
    assert found["args"] == live["args"]
    assert found["image"] == live["image"]
    assert {one["name"] for one in found["env"]} == {one["name"] for one in live["env"]}


def test_a_manifest_that_the_api_server_refuses_is_not_rendered(tmp_path: Path) -> None:
    refused = as_applied(look())
    refused["spec"]["replicas"] = -1
    file = tmp_path / "model.json"
    file.write_text(json.dumps(refused))
    rendered = outrider("render", str(file))
    assert (rendered.code, rendered.out) == (2, "")
    assert "replicas" in rendered.err
    assert len(rendered.err.splitlines()) == 1


def as_applied(model: Object | None) -> Object:
    """Without what the cluster adds to it."""
    assert model is not None
    known = {key: part for key, part in model["metadata"].items() if key not in OF_THE_CLUSTER}
    return {**{key: part for key, part in model.items() if key != "status"}, "metadata": known}


def container_of(deployment: Object | None) -> dict[str, Any]:
    assert deployment is not None
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]["containers"][0]
    assert deployment["metadata"]["name"].startswith(NAME)
    return found
