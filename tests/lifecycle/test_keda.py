"""KEDA scales a model by its load, to zero and back, and the tuner keeps what it knows. In this order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import pytest_asyncio
import yaml

from examples.kit.options import CLIENT_IMAGE
from tests.cluster.engines import pods_of
from tests.cluster.kubectl import Object, apply, has_condition, kubectl, wait_for
from tests.cluster.models import deploying, evidence, in_force, model, read_twin, speculation
from tests.cluster.sending import Sender, sending_to
from tests.lifecycle.keda import installed
from tests.lifecycle.releases import ROOT

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

NAME = "by-keda"
STATIC = "*:0"
"""No drafts, so that every other schedule is what the tuner learned."""
DEMAND = "by-keda-demand"
TOO_MANY = 6
"""Streams that need 6 / 4 / 0.8 = 1.9 replicas of four requests each."""
START = 300.0
SCALED = 120.0
TUNED = 240.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sender() -> AsyncIterator[Sender]:
    """A model with one small engine that KEDA scales, and a client."""
    with installed(), deploying() as deploy:
        async with sending_to(deploy(small_model(), NAME)) as sender:
            wait_for("Ready", look, lambda seen: has_condition(seen, "Ready", "True"), seconds=START)
            await sender.reached()
            demand()
            with scaled():
                yield sender


def small_model() -> dict[str, Any]:
    """An engine that is full early, and of which nothing is known at its start."""
    manifest = read_twin()
    manifest["spec"]["engine"]["args"]["max-num-seqs"] = 4
    manifest["spec"]["speculation"] |= {
        "numSpeculativeTokens": 2,
        "candidates": [0, 1, 2],
        "schedule": [{"numSpeculativeTokens": 0}],
        "tuning": {"mode": "Auto", "sweep": "Never"},
    }
    return manifest


@contextmanager
def scaled() -> Iterator[None]:
    """By the example, with pods in place of a gateway's requests, and quick in both directions."""
    file = ROOT / "examples" / "autoscaling" / "keda-to-zero.yaml"
    manifest = yaml.safe_load(file.read_text().replace("qwen3", NAME).replace('"prod"', '"default"'))
    manifest["metadata"]["namespace"] = "default"
    spec = manifest["spec"]
    workload = {"podSelector": f"app={DEMAND}", "value": "1000"}
    spec["triggers"][1] = {"type": "kubernetes-workload", "metadata": workload}
    spec |= {"maxReplicaCount": 2, "pollingInterval": 5, "cooldownPeriod": 5}
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    spec["advanced"] = {"horizontalPodAutoscalerConfig": {"behavior": behavior}}
    apply(manifest)
    try:
        yield
    finally:
        kubectl("delete", "scaledobject", NAME, "-n", "default", "--ignore-not-found")
        no_demand()


def demand() -> None:
    """A pod that stands for clients."""
    container = {
        "name": "waits",
        "image": CLIENT_IMAGE,
        "command": ["sleep", "infinity"],
        "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}},
    }
    metadata = {"name": DEMAND, "namespace": "default", "labels": {"app": DEMAND}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def no_demand() -> None:
    kubectl("delete", "pod", DEMAND, "-n", "default", "--ignore-not-found", "--wait=true")


def look() -> Object | None:
    """The model as it stands."""
    return model(NAME)


def wants(replicas: int) -> Callable[[Object | None], bool]:
    """Whether the spec asks for so many pods."""
    return lambda seen: (seen or {}).get("spec", {}).get("replicas") == replicas


def has_learned(seen: Object | None) -> bool:
    """Whether the engines confirmed a schedule that is not the static one."""
    table = speculation(seen).get("scheduleSummary", STATIC)
    return table != STATIC and in_force(table)(seen) and bool(evidence(NAME))


async def until(what: str, wanted: Callable[[Object | None], bool], *, seconds: float) -> Object:
    """As `wait_for`, while the load continues."""
    found = await asyncio.to_thread(wait_for, what, look, wanted, seconds=seconds)
    assert found is not None
    return found


async def test_a_load_that_one_engine_cannot_hold_brings_a_second_one(sender: Sender) -> None:
    async with sender.holding(TOO_MANY) as sent:
        await until("two replicas", wants(2), seconds=SCALED)
        await until("another schedule than the static one", has_learned, seconds=TUNED)
    assert [(part.failed, part.errors) for part in sent] == [(0, ())] * len(sent)


async def test_zero_and_back_keeps_the_tuned_schedule_without_a_request(sender: Sender) -> None:
    no_demand()
    resting = await until("no engine", has_none, seconds=SCALED)
    table, known = speculation(resting)["scheduleSummary"], evidence(NAME)
    assert table != STATIC
    assert known

    demand()
    back = await until("the engine has a schedule", tuned_again, seconds=START)
    assert speculation(back)["scheduleSummary"] == table
    assert evidence(NAME).keys() >= known.keys()
    await sender.reached()


def has_none(seen: Object | None) -> bool:
    """Whether the spec asks for no pod, and none is left."""
    return has_condition(seen, "Ready", "False", "ScaledToZero") and wants(0)(seen) and not pods_of(NAME)


def tuned_again(seen: Object | None) -> bool:
    """Whether engines came back and confirmed a schedule of any kind.

    They may be two: until a minute has passed, Prometheus has the need of before.
    """
    found = speculation(seen)
    confirmed = in_force(found.get("scheduleSummary", ""))(seen) and found.get("appliedReplicas", 0) > 0
    return has_condition(seen, "Ready", "True") and confirmed
