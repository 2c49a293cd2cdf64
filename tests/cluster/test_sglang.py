"""SGLang in a pod: the operator changes K while it serves, and finds it again after what dies.

It computes on the CPU, with PyTorch code in place of its compiled kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outrider_protocol.sglang_releases import DEFAULT_RELEASE
from tests.cluster.engines import pods_of, ready_pods, state
from tests.cluster.kubectl import Object, has_condition, kubectl, namespace, patch, wait_for
from tests.cluster.lone_requests import HELD_AT_TWO, counted_by, drafted_at
from tests.cluster.models import deploying, in_force, model, read_example
from tests.cluster.operator_pod import kill_operator
from tests.cluster.own_operator import own_operator
from tests.environment.place import SGLANG_IMAGE

NAME = "sglang"
GENERATED = "sglang:generation_tokens_total"
ON_A_CPU = {
    "device": "cpu",
    "attention-backend": "intel_amx",
    "cuda-graph-backend-decode": "disabled",
    "cuda-graph-backend-prefill": "disabled",
    "mem-fraction-static": 0.4,
    "max-total-tokens": 8192,
    "max-running-requests": 8,
    "dtype": "float32",
    # Else it takes a core as long as it lives.
    "sleep-on-idle": True,
}
KILL_SCHEDULER = """
import os, pathlib, signal
for folder in pathlib.Path("/proc").glob("[0-9]*"):
    if (folder / "cmdline").read_text().startswith("sglang::scheduler"):
        os.kill(int(folder.name), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def pod() -> Iterator[str]:
    """The engine pod of a model on SGLang with an EAGLE-3 head, ready, under its own operator."""
    with own_operator(NAME), deploying() as deploy:
        manifest = read_example()
        manifest["spec"]["speculation"] = HELD_AT_TWO
        manifest["spec"]["engine"] = {
            "runtime": "SGLang",
            "version": DEFAULT_RELEASE,
            "image": SGLANG_IMAGE,
            "args": ON_A_CPU,
        }
        deploy(manifest, NAME)
        wait_for("Ready", look, lambda seen: has_condition(seen, "Ready", "True"), seconds=600)
        (ready,) = ready_pods(NAME)
        yield ready


def look() -> Object | None:
    """The model as it stands."""
    return model(NAME)


def push(k: int) -> None:
    """Have the operator push this K, and wait until the engine has it."""
    patch("specmodel", NAME, {"spec": {"speculation": {"schedule": [{"numSpeculativeTokens": k}]}}})
    wait_for(f"K={k}", look, in_force(f"*:{k}"), seconds=120)


def restarts() -> int:
    """Of the engine's container, in the model's only pod."""
    (one,) = pods_of(NAME)
    return sum(status["restartCount"] for status in one["status"]["containerStatuses"])


@pytest.mark.engine("real", "SGLang")
def test_the_engine_can_be_tuned_live(pod: str) -> None:
    found = state(pod)
    assert (found["engineVersion"], found["method"]) == (DEFAULT_RELEASE, "eagle3")
    assert found["liveTuning"] == {"possible": True, "reason": None}
    assert found["selfTest"]["state"] == "Passed"


@pytest.mark.engine("real", "SGLang")
@pytest.mark.parametrize("k", [1, 0, 3])
def test_a_schedule_of_the_operator_is_what_the_engine_drafts(pod: str, k: int) -> None:
    push(k)
    # One round after a change has the K of before.
    counted_by(pod, "def before(argv):\n    ", generated=GENERATED)
    counted = counted_by(pod, f"def main{k}(argv):\n    ", generated=GENERATED)
    assert drafted_at(counted) == set(range(k))
    assert restarts() == 0


@pytest.mark.engine("real", "SGLang")
def test_an_operator_that_is_killed_finds_the_engine_as_it_is(pod: str) -> None:
    kill_operator()
    push(2)
    assert state(pod)["schedule"] == [{"numSpeculativeTokens": 2}]
    assert restarts() == 0


@pytest.mark.engine("real", "SGLang")
def test_an_engine_that_is_killed_gets_the_schedule_again(pod: str) -> None:
    push(1)
    kubectl("exec", pod, "-n", namespace(), "-c", "engine", "--", "python3", "-c", KILL_SCHEDULER)
    wait_for("restarted", lambda: {"restarts": restarts()}, lambda seen: seen == {"restarts": 1}, seconds=180)
    wait_for("Ready", look, lambda seen: has_condition(seen, "Ready", "True"), seconds=600)
    wait_for("K=1", look, in_force("*:1"), seconds=120)
    assert state(pod)["schedule"] == [{"numSpeculativeTokens": 1}]
