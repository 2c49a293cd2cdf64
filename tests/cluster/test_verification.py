"""`verification: Auto` where vLLM cannot verify adaptively: the canary's engine refuses, and replicas stay.

A simulated engine has no CUDA graphs, which adaptive verification needs. So vLLM's own check refuses it, as
on a GPU whose attention backend has none for such steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from outrider.plan.names import canary_deployment
from tests.cluster.engines import pods_of, ready_pods, wait_for_ready
from tests.cluster.kubectl import Object, condition, get, has_condition, kubectl, wait_for
from tests.cluster.lone_requests import HELD_AT_TWO
from tests.cluster.models import Deploy, model, read_twin, speculation
from tests.cluster.sending import sending_to

NAME = "verified"
STREAMS, START, SECONDS = 2, 180.0, 120.0
GPU = "tests.outrider.dev/gpu"
"""Of a name that no other test asks for."""


@pytest.fixture
def gpus() -> Iterator[None]:
    """The node says that it has three devices. A simulated engine looks for none."""
    (node,) = kubectl("get", "nodes", "-o", "name").split()
    place = f"/status/capacity/{GPU.replace('/', '~1')}"

    def change(**operation: str) -> None:
        patch = json.dumps([{"path": place, **operation}])
        kubectl("patch", node, "--subresource=status", "--type=json", "-p", patch)

    change(op="add", value="3")
    yield
    change(op="remove")


@pytest.mark.engine("twin", "starts")
async def test_a_canary_that_vllm_refuses_ends_with_its_reason_and_the_replicas_stay(
    gpus: None,  # noqa: ARG001
    deploy: Deploy,
) -> None:
    manifest = read_twin()
    spec = manifest["spec"]
    spec["replicas"] = 2
    spec["speculation"] = HELD_AT_TWO | {"tuning": {"mode": "Auto"}, "verification": "Auto"}
    spec["engine"] |= {"modelRunner": "V2"}  # vLLM takes it by default on a GPU only
    spec["resources"]["limits"] = {GPU: "1"}
    deploy(manifest, NAME)
    async with sending_to(manifest) as sender:
        wait_for("both serve", look, lambda _: len(ready_pods(NAME)) == 2, seconds=START)
        await sender.reached()
        replicas = frozenset(ready_pods(NAME))
        refused = partial(says, "AdaptiveUnavailable")
        sent = await sender.send_until(refused, STREAMS, SECONDS)
    assert (sent.failed, sent.errors) == (0, ())
    assert "an engine refuses the adaptive one" in suits()["message"]
    assert "CUDA graph" in suits()["message"], suits()
    wait_for("no canary", canary, lambda seen: seen is None, seconds=60)
    wait_for_ready(NAME, replicas)
    assert len(pods_of(NAME)) == 2
    seen = look()
    assert speculation(seen)["verification"] == "Fixed"
    assert has_condition(seen, "Ready", "True")
    assert condition(seen, "Degraded") is None


def look() -> Object | None:
    """The model as it stands."""
    return model(NAME)


def suits() -> Object:
    """What the model says of its launch."""
    return condition(look(), "LaunchOptimal") or {}


def says(reason: str) -> bool:
    """Whether it says this of its launch."""
    return suits().get("reason") == reason


def canary() -> Object | None:
    """Its Deployment."""
    return get("deployment", canary_deployment(NAME))
