"""Engines that are started anew for another table, and without their drafter, under load. In this order."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from outrider.api.launch import ANNOTATION, Launch, LaunchOrder
from outrider.cluster.ownership import TUNER_MANAGER
from outrider.controller.stored import launch_config_map
from outrider.plan.children import owner_reference
from outrider.plan.names import labels
from outrider_protocol.schedule import Schedule
from tests.cluster.api_server import read
from tests.cluster.engines import name_of, pods_of, ready_pods
from tests.cluster.kubectl import Object, apply, namespace, patch, wait_for
from tests.cluster.models import deploying, model, read_twin, speculation
from tests.cluster.operator_pod import without_operator
from tests.cluster.own_operator import own_operator
from tests.cluster.sending import Sender, sending_to

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.engine("twin", "starts"),
]

NAME = "relaunch"
STATIC = Schedule.parse("8:3,*:0")
TABLE = Schedule.parse("8:2,*:0")
START = 300.0
"""Two engines at a time on two cores: the old one serves while the new one starts."""
TICKS = 60.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stock() -> AsyncIterator[Sender]:
    """One engine without Outrider's plugin, and a client, under its own operator."""
    tuning = {"mode": "Auto", "actuation": "Rollout", "structuralOff": "Allow", "relaunchInterval": "1h"}
    with own_operator(NAME), deploying() as deploy:
        manifest = read_twin()
        manifest["spec"]["speculation"] |= {"tuning": tuning, "schedule": STATIC.to_wire()}
        deploy(manifest, NAME)
        async with sending_to(manifest) as sender:
            wait_for("serves", launches, lambda seen: seen == ready_with(STATIC), seconds=START)
            await sender.reached()
            yield sender


async def test_a_stock_engine_is_started_with_the_table(stock: Sender) -> None:
    (pod,) = pods_of(NAME)
    (engine,) = (found for found in pod["spec"]["containers"] if found["name"] == "engine")
    assert "outrider_engine" not in json.dumps(engine["command"])
    before = drafts(metrics(name_of(pod)))
    sent = await stock.send(streams=1, seconds=4)
    assert (sent.failed, sent.errors) == (0, ())
    assert drafts(metrics(name_of(pod))) > before


async def test_another_table_comes_by_a_rolling_restart_without_a_failed_request(stock: Sender) -> None:
    before = ready_pods(NAME)

    def relaunch() -> None:
        order(LaunchOrder(Launch(schedule=TABLE)))
        wait_for("started anew", launches, lambda seen: seen == ready_with(TABLE), seconds=START)

    await serves_during(stock, relaunch)
    assert set(ready_pods(NAME)).isdisjoint(before)
    wait_for("told", look, lambda seen: speculation(seen).get("scheduleSummary") == str(TABLE), seconds=TICKS)


async def test_without_its_drafter_the_model_serves_and_status_shows_it(stock: Sender) -> None:
    def relaunch() -> None:
        order(LaunchOrder(Launch(drafter=False)))
        wait_for("no drafter", launches, lambda seen: seen == ready_with("no-drafter"), seconds=START)
        wait_for("told", look, lambda seen: speculation(seen).get("state") == "HardOff", seconds=TICKS)

    await serves_during(stock, relaunch)
    (pod,) = ready_pods(NAME)
    assert "spec_decode" not in metrics(pod)


async def test_the_drafter_comes_back_when_its_absence_is_no_longer_allowed(stock: Sender) -> None:
    def come_back() -> None:
        patch("specmodel", NAME, {"spec": {"speculation": {"tuning": {"structuralOff": "Never"}}}})
        wait_for("drafts again", launches, lambda seen: seen == ready_with(STATIC), seconds=START)
        wait_for("told", look, lambda seen: speculation(seen).get("state") == "Active", seconds=TICKS)

    await serves_during(stock, come_back)


async def serves_during(sender: Sender, work: Callable[[], None]) -> None:
    """No request of one stream fails until the work is done, and somewhat longer."""
    began = time.monotonic()
    async with sender.holding(streams=1) as stretches:
        await asyncio.to_thread(work)
    print(f"took {time.monotonic() - began:.0f} s")
    stretches.append(await sender.send(streams=1, seconds=5))
    for sent in stretches:
        assert (sent.failed, sent.errors) == (0, ())
        assert sent.tokens > 0


def look() -> Object | None:
    """The model as it stands."""
    return model(NAME)


def launches() -> Object | None:
    """Every engine pod's launch, and whether it is ready."""
    ready = ready_pods(NAME)
    pods = pods_of(NAME)
    return {
        "status": [[pod["metadata"]["annotations"].get(ANNOTATION), name_of(pod) in ready] for pod in pods]
    }


def ready_with(launch: object) -> Object:
    """One pod, ready, started like this."""
    return {"status": [[str(launch), True]]}


def order(wanted: LaunchOrder) -> None:
    """A launch order, stored while the operator is stopped: a new process continues with it."""
    found = look()
    assert found is not None
    metadata = {
        "name": launch_config_map(NAME),
        "namespace": namespace(),
        "labels": labels(NAME),
        "ownerReferences": [owner_reference(NAME, found["metadata"]["uid"])],
    }
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": wanted.to_data()}
    with without_operator():
        apply(manifest, "--server-side", "--force-conflicts", f"--field-manager={TUNER_MANAGER}")


def metrics(pod: str) -> str:
    """The engine's own page."""
    return read(f"/api/v1/namespaces/{namespace()}/pods/{pod}:8000/proxy/metrics")


def drafts(text: str) -> float:
    """How many drafts the engine has made."""
    return sum(
        float(found) for found in re.findall(r"^vllm:spec_decode_num_drafts_total\{.*\} (\S+)$", text, re.M)
    )
