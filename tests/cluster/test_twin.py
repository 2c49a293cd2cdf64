"""The example of the stand-in for a GPU: started, served and tuned by the operator like any other engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cluster.kubectl import Object, has_condition, list_objects, wait_for
from tests.cluster.models import TWIN, deploying, k_in_force, model, read_example
from tests.cluster.sending import Sender, sending_to

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.engine("twin", "itself")]

NAME = "twin"
NO_DRAFTS = [{"numSpeculativeTokens": 0}]
TUNED_SECONDS = 120.0


def look() -> Object | None:
    """The model as it stands."""
    return model(NAME)


def k(streams: int) -> int:
    """K in force for so many requests."""
    return k_in_force(look(), streams)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sender() -> AsyncIterator[Sender]:
    """A client of the example, whose table begins without drafts."""
    manifest = read_example(TWIN)
    manifest["spec"]["speculation"]["schedule"] = NO_DRAFTS
    with deploying() as deploy:
        deploy(manifest, NAME)
        async with sending_to(manifest) as sender:
            wait_for("Ready", look, lambda seen: has_condition(seen, "Ready", "True"), seconds=180)
            await sender.reached()
            yield sender


async def told(sender: Sender) -> dict[str, float]:
    """The engine's counters of its lateness."""
    (pod,) = list_objects("pods", selector=f"outrider.dev/model={NAME}")
    port = "8000"
    path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}:{port}/proxy/outrider/twin/v1"
    return await sender.cluster.get_raw(path)


@pytest.mark.usefixtures("sender")
async def test_its_step_times_are_known_before_its_first_request() -> None:
    """Engines measure them before they serve; the operator keeps them and says so."""
    seen = wait_for("a map of step times", look, _has_a_map, seconds=60)
    assert "cells, measured by" in str(seen)


def _has_a_map(seen: Object | None) -> bool:
    return seen is not None and "stepTimeProfile" in seen["status"].get("speculation", {})


async def test_the_tuner_finds_that_an_h100_gains_from_drafts(sender: Sender) -> None:
    sent = await sender.send_until(lambda: k(8) > 0, 8, TUNED_SECONDS)
    assert (sent.failed, sent.errors) == (0, ())
    assert k(8) > 0


async def test_the_pod_reports_how_late_it_was(sender: Sender) -> None:
    before = await told(sender)
    await sender.send(streams=8, seconds=10)
    after = await told(sender)
    scheduled, lost = (after[name] - before[name] for name in ("scheduled", "lost"))
    print(f"{scheduled:.1f} s by the table, {lost / scheduled:.3%} more in truth")
    assert scheduled > 5
    assert lost >= 0
