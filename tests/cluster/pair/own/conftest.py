"""The pair once more, under its own operator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.cluster.own_operator import own_operator
from tests.cluster.own_prometheus import URL, start_prometheus
from tests.cluster.pair import NAME, two_engines
from tests.cluster.sending import Sender


@pytest.fixture(scope="package")
def operator() -> Iterator[None]:
    """One that measures by a Prometheus of its own."""
    with own_operator(NAME, prometheus=URL):
        start_prometheus()
        yield


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def pair(operator: None) -> AsyncIterator[Sender]:  # noqa: ARG001 - order
    """Two engines behind one Service, and a client."""
    async with two_engines() as sender:
        yield sender
