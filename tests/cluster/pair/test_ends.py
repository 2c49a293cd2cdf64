"""A pod that ends costs its clients nothing."""

from __future__ import annotations

import pytest

from tests.cluster.ends import end_one
from tests.cluster.kept_connections import LIBRARIES
from tests.cluster.pair import NAME
from tests.cluster.sending import Sender

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.engine("twin", "starts")]

GRACE = 90.0
"""The pod's own: one that uses it up was killed."""


async def test_a_pod_that_ends_loses_no_request_of_clients_that_keep_their_connections(
    pair: Sender,  # noqa: ARG001
) -> None:
    end = end_one(NAME)
    print(end)
    assert end.asked.failed == []
    assert end.asked.requests.keys() == LIBRARIES.keys()
    assert end.seconds < GRACE
