"""A failed rollout is rolled back while requests continue, until the next spec; drains have a budget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from outrider.plan.names import budget
from tests.cluster.engines import ready_pods, wait_for_ready
from tests.cluster.kubectl import Object, condition, get, patch, wait_for
from tests.cluster.models import BASE, Deploy, deploying, model, read_twin
from tests.cluster.sending import Sender, sending_to
from tests.unit.api.admission_cases import merge_patch

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.engine("twin", "starts")]

NAME = "rollback"
START = 300.0
DEADLINE = 10
"""Seconds; the engine that fails does not take its flags."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Sender]:
    """One engine that serves, and a client."""
    manifest = read_twin()
    with deploying() as deploy:
        deploy(manifest, NAME)
        async with sending_to(manifest) as sender:
            wait_for("serves", look, lambda seen: reason(seen, "Ready") == "Serving", seconds=START)
            yield sender


async def test_a_rollout_that_fails_returns_and_no_request_does(served: Sender) -> None:
    await served.reached()
    before = ready_pods(NAME)

    def fail() -> None:
        rollout = {"progressDeadline": f"{DEADLINE}s"}
        patch("specmodel", NAME, {"spec": {"engine": {"args": {"no-such-flag": 1}}, "rollout": rollout}})
        wait_for(
            "rolled back", look, lambda seen: reason(seen, "Degraded") == "RolledBack", seconds=DEADLINE + 120
        )

    async with served.holding(streams=1) as stretches:
        await asyncio.to_thread(fail)
    assert all((sent.failed, sent.errors) == (0, ()) for sent in stretches)
    wait_for_ready(NAME, before)
    assert "restored the last good revision" in (condition(look(), "Degraded") or {})["message"]


async def test_the_spec_of_before_ends_it_without_a_restart(served: Sender) -> None:  # noqa: ARG001
    before = ready_pods(NAME)
    patch("specmodel", NAME, {"spec": {"engine": {"args": {"no-such-flag": None}}}})
    wait_for("serves again", look, lambda seen: reason(seen, "Ready") == "Serving", seconds=120)
    assert condition(look(), "Degraded") is None
    wait_for_ready(NAME, before)


@pytest.fixture
def deploy() -> Iterator[Deploy]:
    with deploying() as deploy:
        yield deploy


async def test_a_disruption_budget_comes_and_goes_with_the_second_replica(deploy: Deploy) -> None:
    name = "budgeted"
    deploy(merge_patch(BASE, {"spec": {"replicas": 2, "engine": {"image": "localhost:1/none:1"}}}), name)

    def found() -> Object | None:
        return get("poddisruptionbudget", budget(name))

    wait_for("a budget", found, lambda seen: seen is not None, seconds=120)
    patch("specmodel", name, {"spec": {"replicas": 1}})
    wait_for("none", found, lambda seen: seen is None, seconds=120)


def look() -> Object | None:
    """The model as it stands."""
    return model(NAME)


def reason(seen: Object | None, kind: str) -> str | None:
    """Of a condition of the present spec; None where there is none."""
    found = condition(seen, kind)
    if seen is None or found is None or found["observedGeneration"] != seen["metadata"]["generation"]:
        return None
    return str(found["reason"])
