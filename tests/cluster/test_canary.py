"""A canary without speculation takes the place of a replica and gives it back; then one tries a new drafter.

Under load, and in this order.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
import pytest_asyncio

from outrider.api.launch import ANNOTATION, DRAFTER_KEY, DrafterVerdict
from outrider.controller.stored import launch_config_map
from outrider.plan.names import canary_deployment
from outrider.plan.rollout import Memory
from tests.cluster.engines import name_of, pods_of, ready_pods, tokens, wait_for_ready
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
NEW_DRAFTER = "pvc://tiny-models/target"
"""A simulated engine computes nothing, so any model serves as another drafter."""


@dataclass(frozen=True)
class Load:
    """Two replicas, of which one may be a canary, and a client."""

    sender: Sender
    pods: frozenset[str]
    """As they were at first."""

    async def until(self, what: str, holds: Callable[[Object | None], bool], *, seconds: float) -> Object:
        """Sends until the model looks like this; no request may fail meanwhile."""
        held = list[Object | None]()

        def reached() -> bool:
            seen = look()
            if holds(seen):
                held.append(seen)
            return bool(held)

        sent = await self.sender.send_until(reached, STREAMS, seconds)
        assert (sent.failed, sent.errors) == (0, ())
        found = held[0] if held else wait_for(what, look, holds, seconds=1)
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
    await load.until("served", lambda _: tokens(name) > before, seconds=START)


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


async def test_a_drafter_that_does_not_load_never_reaches_the_replicas(load: Load) -> None:
    before = frozenset(ready_pods(NAME))
    change_drafter("pvc://tiny-models/no-such-drafter", deadline="20s")
    found = await load.until("rolled back", says_of("Degraded", "RolledBack"), seconds=90)
    assert "no-such-drafter" in (condition(found, "Degraded") or {})["message"]
    wait_for_ready(NAME, before)
    wait_for("no canary", canary, lambda seen: seen is None, seconds=TICKS)


async def test_a_new_drafter_is_tried_beside_the_one_before(load: Load) -> None:
    change_drafter(NEW_DRAFTER, deadline="20m")
    found = await load.until("compared", says_of("Progressing", "ComparingDrafters"), seconds=60)
    assert has_condition(found, "Ready", "True")
    await load.until("stands in", lambda _: drafters() == ["drafter", "target"], seconds=START)
    found = await load.until(
        "measured", lambda seen: "runs with" in suits(seen).get("message", ""), seconds=60
    )
    assert NEW_DRAFTER in suits(found)["message"]


async def test_a_promoted_drafter_replaces_the_one_before(load: Load) -> None:
    """The tuner needs a quarter of an hour for its result, so the test stores one in its place."""
    deployment = get("deployment", NAME)
    assert deployment is not None
    trial = Memory.of(deployment["metadata"]["annotations"]).trial
    assert trial is not None
    result = DrafterVerdict(trial.spec, promoted=True, why="stored by a test")
    patch("configmap", launch_config_map(NAME), {"data": {DRAFTER_KEY: str(result)}})
    found = await load.until("promoted", lambda _: drafters() == ["target", "target"], seconds=START)
    assert has_condition(found, "Ready", "True")
    # Beside many other tests the node may have no room for a pod until one of theirs has ended.
    wait_for("well", look, lambda seen: condition(seen, "Degraded") is None, seconds=START)


def change_drafter(uri: str, *, deadline: str) -> None:
    """Write another drafter, and how long a pod may take."""
    speculation = {"drafter": {"uri": uri}, "tuning": {"canary": "Allow"}}
    patch(
        "specmodel", NAME, {"spec": {"speculation": speculation, "rollout": {"progressDeadline": deadline}}}
    )


def drafters() -> list[str]:
    """The folders of the drafters of the pods that take traffic."""
    ready, flag = ready_pods(NAME), "--speculative-config="
    found = (pod["spec"]["containers"][0]["args"] for pod in pods_of(NAME) if name_of(pod) in ready)
    configs = (one.removeprefix(flag) for args in found for one in args if one.startswith(flag))
    return sorted(json.loads(config)["model"].rpartition("/")[2] for config in configs)


def says_of(kind: str, reason: str) -> Callable[[Object | None], bool]:
    """Whether a condition has this reason."""
    return lambda seen: (condition(seen, kind) or {}).get("reason") == reason


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
