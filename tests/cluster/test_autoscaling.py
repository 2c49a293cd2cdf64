"""Replicas follow the load by a real HorizontalPodAutoscaler; the tuner rests meanwhile. In this order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.cluster.api_server import ApiServerError, read
from tests.cluster.engines import page, ready_pods
from tests.cluster.kubectl import Object, apply, get, has_condition, kubectl, wait_for
from tests.cluster.models import deploying, model, read_twin
from tests.cluster.sending import Sender, Sent, sending_to

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.engine("twin", "starts")]

NAME = "scaled"
AUTOSCALER = Path(__file__).resolve().parents[2] / "examples" / "autoscaling" / "hpa.yaml"
SEATS = 4
"""Requests that one engine holds."""
TOO_MANY = 6
"""Streams that need 6 / 4 / 0.8 = 1.9 replicas, however they spread."""
SETTLED = 180.0
"""The tuner rests anew whenever a pod comes, goes, or fails a look of the kubelet on a busy machine."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sender() -> AsyncIterator[Sender]:
    """A model with one small engine, its autoscaler, and a client."""
    if get("apiservice", "v1beta1.external.metrics.k8s.io") is None:
        pytest.skip("nobody serves external metrics in this cluster")
    with deploying() as deploy:
        async with sending_to(deploy(small_model(), NAME)) as sender:
            wait_for("Ready", look, lambda seen: has_condition(seen, "Ready", "True"), seconds=300)
            await sender.reached()
            with autoscaler():
                yield sender


def small_model() -> dict[str, Any]:
    """An engine that is full early."""
    manifest = read_twin()
    manifest["spec"]["engine"]["args"]["max-num-seqs"] = SEATS
    manifest["spec"]["speculation"] |= {
        "numSpeculativeTokens": 2,
        "candidates": [0, 1, 2],
        "schedule": [{"numSpeculativeTokens": 2}],
    }
    return manifest


@contextmanager
def autoscaler() -> Iterator[None]:
    """The example's, for at most two replicas, and quick to take one back."""
    manifest = yaml.safe_load(AUTOSCALER.read_text())
    manifest["metadata"] = {"name": NAME, "namespace": "default"}
    spec = manifest["spec"]
    spec["scaleTargetRef"]["name"] = NAME
    spec["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]["model"] = NAME
    spec |= {"maxReplicas": 2, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}
    apply(manifest)
    try:
        yield
    finally:
        kubectl("delete", "hpa", NAME, "-n", "default", "--ignore-not-found")


async def until(
    what: str, look: Callable[[], Object | None], wanted: Callable[[Object | None], bool], *, seconds: float
) -> Object | None:
    """As `wait_for`, while the load continues."""
    return await asyncio.to_thread(wait_for, what, look, wanted, seconds=seconds)


def look() -> Object | None:
    """The model as it stands."""
    return model(NAME)


def needed() -> Object | None:
    """What the autoscaler reads; None before the adapter knows the metric."""
    path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/outrider_required_replicas"
    try:
        answer: Object = json.loads(read(path, labelSelector=f"model={NAME}"))
    except ApiServerError:
        return None
    return answer


def needs(replicas: int) -> Callable[[Object | None], bool]:
    """Whether the adapter answers with this number alone."""
    return lambda answer: [row["value"] for row in (answer or {}).get("items", ())] == [str(replicas)]


def wants(replicas: int) -> Callable[[Object | None], bool]:
    """Whether the spec asks for so many pods."""
    return lambda seen: (seen or {}).get("spec", {}).get("replicas") == replicas


def runs(replicas: int) -> Callable[[Object | None], bool]:
    """Whether so many pods are ready and are tuned."""

    def holds(seen: Object | None) -> bool:
        return (
            (seen or {})["status"].get("readyReplicas") == replicas
            and has_condition(seen, "ActuationConverged", "True")
            and has_condition(seen, "TuningActive", "True")
        )

    return holds


def rests(seen: Object | None) -> bool:
    """Whether the tuner waits for the load to spread."""
    return has_condition(seen, "TuningActive", "False", "ReplicasSettling")


def pushes() -> Object | None:
    """Term and epoch of the push that each engine accepted last, as it says itself."""
    return {"status": [(seen.term, seen.epoch) for pod in ready_pods(NAME) if (seen := page(pod))]}


def two_alike(seen: Object | None) -> bool:
    """Whether two engines accepted the same push."""
    found = (seen or {})["status"]
    return len(found) == 2 and len(set(found)) == 1


def assert_no_request_failed(sent: list[Sent]) -> None:
    assert sum(part.tokens for part in sent) > 0
    assert [(part.failed, part.errors) for part in sent] == [(0, ())] * len(sent)


async def test_a_load_that_one_engine_cannot_hold_brings_a_second_one(sender: Sender) -> None:
    async with sender.holding(TOO_MANY) as sent:
        await until("the adapter tells the need", needed, needs(2), seconds=60)
        await until("the autoscaler asks for two pods", look, wants(2), seconds=60)
        await until("the tuner rests with the second pod", look, rests, seconds=240)
        await until("it goes on", look, runs(2), seconds=SETTLED)
        await until("both engines say that they run one table", pushes, two_alike, seconds=30)
        await until("two are enough", needed, needs(2), seconds=30)
    assert_no_request_failed(sent)


async def test_when_the_load_is_gone_the_second_engine_goes_and_no_request_is_lost(sender: Sender) -> None:
    async with sender.holding(1) as sent:
        await until("the adapter tells the need", needed, needs(1), seconds=60)
        await until("the autoscaler takes a pod back", look, wants(1), seconds=60)
        await until("the tuner rests", look, rests, seconds=60)
        await until("it goes on", look, runs(1), seconds=SETTLED)
    assert_no_request_failed(sent)
