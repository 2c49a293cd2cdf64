"""vLLM's V2 runner with asynchronous scheduling in a pod: the operator changes K while the engine serves.

Triton's interpreter runs the kernels. Its backend, and a plugin that keeps asynchronous scheduling on a CPU,
come as a volume: no image of Outrider has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.plan.names import schedule_config_map
from outrider_protocol.request_limits import LIMITS_FILE
from tests.cluster.engines import pods_of, ready_pods, state
from tests.cluster.kubectl import Object, apply, get, has_condition, kubectl, namespace, patch, wait_for
from tests.cluster.lone_requests import HELD_AT_TWO, TOKENS, counted_by, counters, drafted_at
from tests.cluster.models import deploying, in_force, model, read_light
from tests.contract import asynchronous, helper_plugins
from tests.contract.engine import install_interpreter
from tests.contract.engine_process import INTERPRETED

pytestmark = pytest.mark.engine("real", "V2")

NAME = "v2"
FILES = "v2-interpreter"
FOLDER = "/opt/interpreter"
BY_RULE = "outrider:limit_rule_requests_total"
GENERATED = "vllm:generation_tokens_total"
COUNTED = {
    "outrider:emitted_tokens_total": GENERATED,
    "outrider:draft_tokens_total": "vllm:spec_decode_num_draft_tokens_total",
    "outrider:accepted_tokens_total": "vllm:spec_decode_num_accepted_tokens_total",
}
"""Sums of the plugin, and those of vLLM that they must equal."""


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The engine pod of a model on V2 with an EAGLE-3 head, ready."""
    files = tmp_path_factory.mktemp("interpreter")
    install_interpreter(files)
    helper_plugins.install_modules(
        files,
        "asynchronous",
        {asynchronous.NAME: f"{asynchronous.NAME}:register"},
        {asynchronous.NAME: asynchronous},
    )
    volume = put_into_a_volume(files)
    manifest = read_light()
    manifest["spec"]["speculation"] = HELD_AT_TWO
    manifest["spec"]["engine"] |= {"modelRunner": "V2"}
    manifest["spec"]["engine"]["args"] |= {"max-num-seqs": 8}
    template = manifest["spec"]["podTemplate"]["spec"]
    (container,) = template["containers"]
    variables = {
        **INTERPRETED,
        "PYTHONPATH": f"/opt/outrider:{FOLDER}",
        "VLLM_PLUGINS": asynchronous.NAME,
    }
    container["env"] += [{"name": name, "value": value} for name, value in variables.items()]
    container["volumeMounts"].append({"name": volume["name"], "mountPath": FOLDER, "readOnly": True})
    template["volumes"].append(volume)
    try:
        with deploying() as deploy:
            deploy(manifest, NAME)
            wait_for("Ready", look, lambda seen: has_condition(seen, "Ready", "True"), seconds=600)
            (ready,) = ready_pods(NAME)
            yield ready
    finally:
        kubectl("delete", "configmap", FILES, "-n", namespace(), "--ignore-not-found")


def put_into_a_volume(files: Path) -> Object:
    """A ConfigMap with the files of a folder, as a volume that has them at their paths."""
    paths = sorted(path for path in files.rglob("*") if path.is_file() and path.suffix != ".pyc")
    named = {f"file-{number}": path for number, path in enumerate(paths)}
    apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": FILES, "namespace": namespace()},
            "data": {key: path.read_text() for key, path in named.items()},
        }
    )
    items = [{"key": key, "path": str(path.relative_to(files))} for key, path in named.items()]
    return {"name": "interpreter", "configMap": {"name": FILES, "items": items}}


def look() -> Object | None:
    """The model as it stands."""
    return model(NAME)


def test_the_engine_runs_v2_with_asynchronous_scheduling(pod: str) -> None:
    found = state(pod)
    assert (found["runner"], found["method"], found["problems"]) == ("V2", "eagle3", [])
    assert found["liveTuning"]["possible"]
    assert found["selfTest"]["state"] == "Passed"
    assert asynchronous.QUEUED in kubectl("logs", pod, "-n", namespace(), "-c", "engine")


@pytest.mark.parametrize("k", [1, 0, 3])
def test_a_schedule_of_the_operator_is_what_the_engine_drafts(pod: str, k: int) -> None:
    patch("specmodel", NAME, {"spec": {"speculation": {"schedule": [{"numSpeculativeTokens": k}]}}})
    wait_for(f"K={k}", look, in_force(f"*:{k}"), seconds=60)
    counted = counted_by(pod, f"def main{k}(argv):\n    ", generated=GENERATED)
    assert drafted_at(counted) == set(range(k))
    assert {ours: counted[ours] for ours in COUNTED} == {
        ours: counted[theirs] for ours, theirs in COUNTED.items()
    }


@pytest.mark.parametrize(
    "limit",
    [{"vllm_xargs": {"outrider_max_k": 1}}, {"headers": {"X-Outrider-Max-K": "1"}}],
    ids=["field", "header"],
)
def test_a_request_limits_its_own_k(pod: str, limit: dict[str, Any]) -> None:
    counted = counted_by(pod, "def limited(argv):\n    ", generated=GENERATED, **limit)
    assert drafted_at(counted) == {0}
    assert counted["outrider:request_limits_total"] == 1


def test_a_request_limit_of_the_spec_reaches_the_running_engine(pod: str) -> None:
    limit = {"name": "short", "maxK": 0, "when": {"maxTokensBelow": TOKENS}}
    patch("specmodel", NAME, {"spec": {"speculation": {"requestLimits": [limit]}}})
    wait_for("in the ConfigMap", schedule_map, lambda seen: LIMITS_FILE in (seen or {})["data"], seconds=30)
    # The kubelet looks at a pod each minute, and at once where the pod changed.
    kubectl("annotate", "pod", pod, "-n", namespace(), "example.com/looked-at=now")
    wait_for("read", lambda: dict(counters(pod)), lambda seen: BY_RULE in (seen or {}), seconds=120)
    short = counted_by(pod, "def short(argv):\n    ", generated=GENERATED, tokens=TOKENS // 2)
    assert (drafted_at(short), short[BY_RULE]) == (set(), 1)
    long = counted_by(pod, "def long(argv):\n    ", generated=GENERATED)
    assert (drafted_at(long), long[BY_RULE]) == ({0, 1, 2}, 0)
    assert state(pod)["problems"] == []


def schedule_map() -> Object | None:
    """What the pod mounts."""
    return get("configmap", schedule_config_map(NAME))


def test_no_pod_restarted(pod: str) -> None:
    (one,) = pods_of(NAME)
    assert one["metadata"]["name"] == pod
    assert [status["restartCount"] for status in one["status"]["containerStatuses"]] == [0]
