"""One model with two replicas for the whole folder: starting two engines takes a while."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio

from tests.cluster.annotations import take_back
from tests.cluster.engines import ready_pods, state
from tests.cluster.kubectl import has_condition, kubectl, namespace, wait_for
from tests.cluster.models import in_force
from tests.cluster.pair import NAME, TICKS, look, tune, two_engines
from tests.cluster.sending import Sender


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def pair() -> AsyncIterator[Sender]:
    """Two engines behind one Service, and a client."""
    async with two_engines() as sender:
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
    kubectl("delete", "configmap", f"{NAME}-tuner", "-n", namespace(), "--ignore-not-found")


@pytest.fixture
def engines(pair: Sender) -> Callable[[], dict[str, str]]:  # noqa: ARG001  it has them
    """The engine processes, by pod."""
    return lambda: {pod: str(state(pod)["bootId"]) for pod in ready_pods(NAME)}
