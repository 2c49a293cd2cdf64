"""One replica gives way to a canary without speculation, under load, and comes back. In this order."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
import pytest_asyncio

from outrider.api.launch import ANNOTATION
from outrider.plan.names import canary_deployment
from tests.cluster.engines import name_of, pods_of, ready_pods, tokens
from tests.cluster.kubectl import Object, condition, get, has_condition, kubectl, patch, wait_for
from tests.cluster.models import deploying, model, read_twin
from tests.cluster.sending import Sender, sending_to

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.engine("twin", "starts")]

NAME = "compared"
STREAMS = 2
START = 300.0
"""Three engines on few cores: two serve while the third one starts."""
TICKS = 30.0
DRAFTS, BARE = "", "no-drafter"


@dataclass(frozen=True)
class Load:
    """Two replicas, of which one may be a canary, and a client."""

    sender: Sender
    pods: frozenset[str]
    """As they were at first."""

    async def until(self, what: str, holds: Callable[[Object | None], bool], *, seconds: float) -> Object:
        """Sends until the model looks like this; no request may fail meanwhile."""
        sent = await self.sender.send_until(lambda: holds(look()), STREAMS, seconds)
        assert (sent.failed, sent.errors) == (0, ())
        found = wait_for(what, look, holds, seconds=1)
        assert found is not None
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def load() -> AsyncIterator[Load]:
    """One model for the whole module: in this order."""
    manifest = read_twin()
    manifest["spec"]["replicas"] = 2
    manifest["spec"]["speculation"] |= {"tuning": {"mode": "Auto", "canary": "Allow"}}
    with deploying() as deploy:
        deploy(manifest, NAME)
        async with sending_to(manifest) as sender:
            wait_for("two serve", look, lambda _: serving() == [DRAFTS, DRAFTS], seconds=START)
            await sender.reached()
            yield Load(sender, frozenset(ready_pods(NAME)))


async def test_a_canary_starts_beside_both_replicas(load: Load) -> None:
    found = await load.until("ordered", says("CanaryRunning"), seconds=60)
    assert "without speculation" in suits(found)["message"]
    wait_for("a third pod", look, lambda _: len(pods_of(NAME)) == 3, seconds=TICKS)
    assert serving() == [DRAFTS, DRAFTS]
    (pod,) = (pod for pod in pods_of(NAME) if launch(pod) == BARE)
    assert "speculative" not in json.dumps(pod["spec"]["containers"])


async def test_once_it_serves_it_stands_in_for_one_of_them(load: Load) -> None:
    found = await load.until("stands in", lambda _: serving() == [DRAFTS, BARE], seconds=START)
    assert has_condition(found, "Ready", "True")


async def test_it_serves_its_share_of_the_same_traffic(load: Load) -> None:
    (name,) = (name_of(pod) for pod in pods_of(NAME) if launch(pod) == BARE)
    before = tokens(name)
    await load.until("served", lambda _: tokens(name) > before, seconds=TICKS)


async def test_the_replica_returns_and_the_canary_goes_when_it_is_no_longer_allowed(load: Load) -> None:
    patch("specmodel", NAME, {"spec": {"speculation": {"tuning": {"canary": "Never"}}}})
    found = await load.until("both are back", lambda _: serving() == [DRAFTS, DRAFTS], seconds=START)
    assert has_condition(found, "Ready", "True")
    wait_for("no canary", canary, lambda seen: seen is None, seconds=TICKS)


async def test_its_start_is_reported_by_an_event(load: Load) -> None:  # noqa: ARG001
    found = look()
    assert found is not None
    selector = f"involvedObject.uid={found['metadata']['uid']},reason=CanaryStarted"
    printed = kubectl("get", "events", "-n", "default", "--field-selector", selector, "-o", "json")
    (event,) = json.loads(printed)["items"]
    assert "launches one replica without speculation" in event["message"]


async def test_one_replica_stayed_and_no_engine_restarted(load: Load) -> None:
    pods = pods_of(NAME)
    assert len(load.pods & {name_of(pod) for pod in pods}) == 1
    assert sum(status["restartCount"] for pod in pods for status in pod["status"]["containerStatuses"]) == 0


def look() -> Object | None:
    """The model as it stands."""
    return model(NAME)


def suits(seen: Object | None) -> Object:
    """What the model says of its launch."""
    return condition(seen, "LaunchOptimal") or {}


def says(reason: str) -> Callable[[Object | None], bool]:
    """Whether it says this of its launch."""
    return lambda seen: suits(seen).get("reason") == reason


def launch(pod: Object) -> str:
    """How a pod was launched; "" as the spec says."""
    return str(pod["metadata"].get("annotations", {}).get(ANNOTATION, DRAFTS))


def serving() -> list[str]:
    """The launches of the pods that take traffic."""
    ready = ready_pods(NAME)
    return sorted(launch(pod) for pod in pods_of(NAME) if name_of(pod) in ready)


def canary() -> Object | None:
    """Its Deployment."""
    return get("deployment", canary_deployment(NAME))
