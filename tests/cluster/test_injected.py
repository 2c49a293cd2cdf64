"""An image with vLLM and without Outrider's plugin: the pod brings the plugin, and K changes live."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cluster.engines import name_of, pods_of, ready_pods, state
from tests.cluster.kubectl import (
    KubectlError,
    Object,
    apply,
    condition,
    has_condition,
    kubectl,
    namespace,
    patch,
    wait_for,
)
from tests.cluster.models import deploying, in_force, model, read_light
from tests.cluster.outrider_cli import has_no_override, outrider
from tests.environment.place import PLUGIN_IMAGE, STOCK_IMAGE

pytestmark = pytest.mark.engine("real", "stock")

NAME = "injected"
RESTRICTED = "injected-restricted"
OWN_PACKAGES = """
import importlib.util, json, pathlib, sys
sys.path.remove("/opt/outrider")
print(json.dumps({
    "image has the plugin": importlib.util.find_spec("outrider_engine") is not None,
    "image has vLLM": importlib.util.find_spec("vllm") is not None,
}))
try:
    pathlib.Path("/opt/outrider/outrider_engine/plugin.py").write_text("")
    raise SystemExit("the engine can write the plugin")
except OSError:
    pass
"""


@pytest.fixture(scope="module")
def pod() -> Iterator[Object]:
    """The pod of a stock engine, ready."""
    manifest = read_light()
    manifest["spec"]["engine"] |= {"image": STOCK_IMAGE, "plugin": "Injected"}
    manifest["spec"]["speculation"]["tuning"] = {"mode": "Off", "sweep": "Never"}
    with deploying() as deploy:
        deploy(manifest, NAME)
        wait_for("Ready", look, lambda seen: has_condition(seen, "Ready", "True"), seconds=300)
        (name,) = ready_pods(NAME)
        yield next(found for found in pods_of(NAME) if name_of(found) == name)


def look() -> Object | None:
    return model(NAME)


def test_the_image_has_no_plugin_and_the_engine_cannot_write_the_one_that_it_got(pod: Object) -> None:
    (engine,) = pod["spec"]["containers"]
    (brought,) = pod["spec"]["initContainers"]
    assert (engine["image"], brought["image"]) == (STOCK_IMAGE, PLUGIN_IMAGE)
    printed = kubectl(
        "exec", name_of(pod), "-n", namespace(), "-c", "engine", "--", "python3", "-c", OWN_PACKAGES
    )
    assert json.loads(printed) == {"image has the plugin": False, "image has vLLM": True}


def test_a_restricted_namespace_takes_the_pod(pod: Object) -> None:
    """Pod Security is asked for the same pod in a namespace that enforces it."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RESTRICTED, "labels": label}})
    spec = {
        key: value
        for key, value in pod["spec"].items()
        if key not in ("nodeName", "serviceAccount", "priority")
    }
    wanted = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "as-planned", "namespace": RESTRICTED},
        "spec": spec | {"serviceAccountName": "default"},
    }
    try:
        wait_for("the account", lambda: {}, lambda _: has_account(), seconds=30)
        apply(wanted, "--dry-run=server")
        loose = wanted | {"spec": wanted["spec"] | {"hostPID": True}}  # type: ignore[operator]
        with pytest.raises(KubectlError, match="restricted"):
            apply(loose, "--dry-run=server")
    finally:
        kubectl("delete", "namespace", RESTRICTED, "--wait=false")


def has_account() -> bool:
    """Whether pods of the new namespace can be created."""
    try:
        kubectl("get", "serviceaccount", "default", "-n", RESTRICTED)
    except KubectlError:
        return False
    return True


def test_an_edited_schedule_is_in_force_without_a_restart(pod: Object) -> None:
    for k in (0, 5, 2):
        patch("specmodel", NAME, {"spec": {"speculation": {"schedule": [{"numSpeculativeTokens": k}]}}})
        wait_for(f"K={k}", look, in_force(f"*:{k}", replicas=1), seconds=60)
        assert state(name_of(pod))["schedule"] == [{"numSpeculativeTokens": k}]
    (after,) = pods_of(NAME)
    assert name_of(after) == name_of(pod)
    assert [one["restartCount"] for one in after["status"]["containerStatuses"]] == [0]


def test_drafts_change_no_answer_of_a_real_engine_and_nothing_is_left(pod: Object) -> None:
    """By `outrider verify`. It is here because this engine computes: another start takes long."""
    ended = outrider(
        "verify", NAME, "--yes", "-n", "default", "--tokens", "32", "--samples", "100", seconds=600
    )
    print(ended.err, ended.out, sep="\n")
    assert ended.code == 0, ended.out + ended.err
    assert ended.out.splitlines()[-1] == "Verdict: lossless: no change of answers was found"
    assert has_no_override(look())
    assert [name_of(one) for one in pods_of(NAME)] == [name_of(pod)]


def test_an_image_without_vllm_is_reported_by_what_it_lacks() -> None:
    """The same image without the volume that has vLLM."""
    manifest = read_light()
    manifest["spec"]["engine"] |= {"image": STOCK_IMAGE, "plugin": "Injected"}
    template = manifest["spec"]["podTemplate"]["spec"]
    del template["volumes"]
    del template["containers"][0]["volumeMounts"]
    with deploying() as deploy:
        deploy(manifest, f"{NAME}-bare")
        seen = wait_for(
            "what the image lacks",
            lambda: model(f"{NAME}-bare"),
            lambda seen: has_condition(seen, "Degraded", "True", "EngineImageIncomplete"),
            seconds=120,
        )
    found = condition(seen, "Degraded")
    assert found is not None
    assert "no package vllm and no package cryptography" in found["message"]
