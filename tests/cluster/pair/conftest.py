"""One model with two replicas for the whole folder: starting two engines takes a while."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.cluster.annotations import take_back
from tests.cluster.kubectl import has_condition, kubectl, wait_for
from tests.cluster.models import deploying, in_force, read_twin
from tests.cluster.pair import NAME, STATIC, TICKS, look, tune
from tests.cluster.sending import Sender, sending_to


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def pair() -> AsyncIterator[Sender]:
    """Two engines behind one Service, and a client."""
    manifest = read_twin()
    manifest["spec"]["replicas"] = 2
    manifest["spec"]["speculation"] |= {"tuning": {"mode": "Off"}, "schedule": STATIC}
    with deploying() as deploy:
        deploy(manifest, NAME)
        async with sending_to(manifest) as sender:
            wait_for("both serve", look, in_force("3:0,*:5", replicas=2), seconds=400)
            await sender.reached()
            yield sender


@pytest.fixture(autouse=True)
def as_applied(pair: Sender) -> Iterator[None]:  # noqa: ARG001 - order
    """Each test says what it wants; afterwards both engines have the static table and nothing is known."""
    yield
    take_back(NAME)
    tune("Off")
    wait_for(
        "both have the static table",
        look,
        lambda seen: (
            in_force("3:0,*:5", replicas=2)(seen) and has_condition(seen, "Ready", "True", "Serving")
        ),
        seconds=180 + TICKS,
    )
    kubectl("delete", "configmap", f"{NAME}-tuner", "-n", "default", "--ignore-not-found")
